// Command docket is the command line of docket: it talks to a running docketd
// over its unix socket, and reads and verifies files with no service at all.
//
// Each command has a file of its own, cmd_X.go; ui.go holds the rules for what
// is printed where, and the one list of error codes and exit codes. verify and
// --db read files through package verify, never through the writer's code, and
// write nothing; export and snapshot make new files and never replace one.
package main
