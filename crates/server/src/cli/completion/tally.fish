# Completion of tally's commands, and of what there is on the server, for fish.

complete --command tally --no-files --keep-order --arguments '(tally complete -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor) 2> /dev/null)'
