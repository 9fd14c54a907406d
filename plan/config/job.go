package config

import (
	"strconv"

	"strait/plan/fault"
	"strait/plan/option"
)

// Section is the part of a job file in which a plugin stands.
type Section string

// The sections of a job file, in the order rows flow.
const (
	Source    Section = "source"
	Transform Section = "transform"
	Sink      Section = "sink"
)

// Job is a job file after parsing: env as written, plugins in file order.
type Job struct {
	File       string       // as given on the command line; empty for text from elsewhere
	Env        *option.Node // an object, never nil
	Sources    []*Block
	Transforms []*Block
	Sinks      []*Block
	Root       *option.Node // the whole file as SeaTunnel reads it (plugin sections as lists with plugin_name; nothing decoded)

	// EnvUsed holds the environment variables that were asked for and found. Text, Options.Vars and
	// FixedEnv(EnvUsed) give the same job again anywhere.
	EnvUsed map[string]string
}

// Block is one plugin of a job file.
type Block struct {
	Section Section
	Plugin  string       // as written; plugin names match without regard to case
	Ordinal int          // position within its section, from 0
	Options *option.Node // an object: all keys of the block but plugin_name, secrets decoded (env.shade.identifier)
	Pos     fault.Position
	Inputs  []string // plugin_input or source_table_name; empty: the plugin before
	Output  string   // plugin_output or result_table_name; empty: none
}

// Path names the block in messages: source[0] (FakeSource).
func (b *Block) Path() string {
	return string(b.Section) + "[" + strconv.Itoa(b.Ordinal) + "] (" + b.Plugin + ")"
}
