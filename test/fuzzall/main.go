// Command fuzzall runs every fuzz target of the module for a while, one after
// another, since go test takes one target at a time. It fails where there is
// none: a suite that finds nothing to run has not passed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 20*time.Second, "how long each target runs")
	flag.Parse()
	n, err := run(*each)
	if err == nil && n == 0 {
		err = fmt.Errorf("no fuzz target found")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
	fmt.Printf("fuzzall: %d targets, %s each\n", n, *each)
}

func run(each time.Duration) (int, error) {
	list, err := output("go", "list", "./...")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pkg := range strings.Fields(list) {
		targets, err := output("go", "test", "-list", "^Fuzz", pkg)
		if err != nil {
			return n, err
		}
		for _, name := range strings.Fields(targets) {
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			fmt.Printf("fuzzall: %s %s\n", pkg, name)
			cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", each.String(), pkg)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				return n, fmt.Errorf("%s %s: %w", pkg, name, err)
			}
			n++
		}
	}
	return n, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(b), nil
}
