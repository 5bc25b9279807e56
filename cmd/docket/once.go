package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// once is a flag that takes one value: of two the first would be dropped in
// silence.
type once struct {
	pflag.Value
	set bool
}

func (o *once) Set(text string) error {
	if o.set {
		return errors.New("it stands twice, and one of the values would be dropped")
	}
	o.set = true
	return o.Value.Set(text)
}

// onceEach makes every flag of cmd and below that holds one text or duration
// refuse a second.
func onceEach(cmd *cobra.Command) {
	guard := func(f *pflag.Flag) {
		if t := f.Value.Type(); t == "string" || t == "duration" {
			f.Value = &once{Value: f.Value}
		}
	}
	cmd.PersistentFlags().VisitAll(guard)
	cmd.LocalNonPersistentFlags().VisitAll(guard)
	for _, c := range cmd.Commands() {
		onceEach(c)
	}
}
