package logical

import (
	"strait/plan/config"
	"strait/plan/option"
)

// MaxParallelism is the most subtasks a vertex may have.
const MaxParallelism = 10000

func parallelism(def, doc string) option.Option {
	return option.Option{Name: "parallelism", Type: option.TInt, Default: def, Min: option.Bound(1), Max: option.Bound(MaxParallelism), Doc: doc}
}

var (
	inputOption = option.Option{Name: "plugin_input", Aliases: []string{"source_table_name"}, Type: option.TStrings,
		Doc: "Name or names of the plugins whose rows it reads; without it the plugin before."}
	outputOption = option.Option{Name: "plugin_output", Aliases: []string{"result_table_name"}, Type: option.TString,
		Doc: "Name under which others read its rows."}
	replicaOption = option.Option{Name: "multi_table_sink_replica", Type: option.TInt, Default: "1", Min: option.Bound(1), Max: option.Bound(MaxParallelism), Hidden: true,
		Doc: "Writers per table inside one subtask of SeaTunnel; without effect here."}
)

// Common lists the options that every plugin of a section has. A worker that builds a plugin decodes its block
// with them, as the planner did.
func Common(s config.Section) []option.Option {
	switch s {
	case config.Source:
		return []option.Option{outputOption, hidden(inputOption),
			parallelism("", "Number of subtasks; without it env.parallelism.")}
	case config.Transform:
		return []option.Option{inputOption, outputOption,
			parallelism("", "Number of subtasks; without it that of the largest input.")}
	}
	return []option.Option{inputOption, hidden(outputOption), replicaOption,
		parallelism("", "Number of subtasks; without it that of the largest input.")}
}

func hidden(o option.Option) option.Option {
	o.Hidden = true
	return o
}

// noEffect says which common options a section accepts without using them.
var noEffect = map[config.Section]map[string]string{
	config.Source: {"plugin_input": "a source reads no other plugin"},
	config.Sink: {"plugin_output": "nothing reads a sink",
		"multi_table_sink_replica": "set parallelism of the sink instead"},
}
