"""Parts of networks as Sample Factory's code makes them, by the protocols of this package."""
