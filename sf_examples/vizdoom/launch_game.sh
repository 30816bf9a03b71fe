#!/bin/sh
# Starts one Doom game; ViZDoom calls it in place of the game's program, with the game's arguments.
#
# Ctrl+C and a request to end reach every process of a terminal or a job. The games leave them to the process that plays,
# which is about to save its work: it ends them itself.
trap '' HUP INT TERM
# The game writes into the folder it is started in, and does not start where it cannot.
cd "$SAMPLE_PROFILER_GAME_FOLDER" || exit 1
# Games of a match write about their connection all the time.
case " $* " in *" -host "* | *" -join "*) exec >/dev/null 2>&1 ;; esac
# A game does not outlive who plays it, however that ends; not every system has the means.
if setpriv --pdeathsig KILL true 2>/dev/null; then
    exec setpriv --pdeathsig KILL -- "$SAMPLE_PROFILER_GAME_PROGRAM" "$@"
fi
exec "$SAMPLE_PROFILER_GAME_PROGRAM" "$@"
