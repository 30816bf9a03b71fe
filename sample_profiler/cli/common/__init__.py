"""What commands have in common: arguments, how problems are told, exit statuses."""
