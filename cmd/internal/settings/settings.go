package settings

import (
	"strings"

	"strait/plan/option"
)

// Role is a set of those that read a setting.
type Role uint8

// Who reads a setting.
const (
	Client      Role = 1 << iota // every command that talks to a fleet, the roles too
	Run                          // stctl run, which reads no file
	Coordinator                  // serve coordinator, serve standalone
	Worker                       // serve worker, serve standalone
	Sealer                       // commands that seal or open the secrets of jobs: job submit, secret

	Roles    = Coordinator | Worker
	Everyone = Client | Run | Roles | Sealer
)

// Setting is one line of the table.
type Setting struct {
	Path    string   // in the file: worker.slots
	Flag    string   // without dashes; empty for a secret
	Env     string   // empty: STRAIT_ and the flag, or the path where there is none, in capitals
	Type    Type     // how its value is read
	Default string   // as it would be written; empty where it depends on the host or there is none
	Example string   // for the sample, where there is no Default
	Roles   Role     // who reads it
	Secret  bool     // has no flag; beside it stands a setting <path>-file, and Values.Secret reads both
	Enum    []string // Enum: the words
	Min     *int64   // Int, Bytes
	Word    string   // Int: may stand for the number, which then is WordValue
	Doc     string   // what it does; the word in back-quotes stands for the value in help
}

// WordValue is the number of an Int setting that is its Word.
const WordValue = -1

// Type is how the value of a setting is read.
type Type uint8

// The types of settings.
const (
	String   Type = iota
	Int           // a whole number
	Duration      // 10s, 5m; a bare number is seconds
	Bytes         // 64MiB
	Enum          // one of Setting.Enum
	List          // words, with commas in a flag or a variable, a list in the file
	Pairs         // KEY=VALUE, the flag may be repeated; an object in the file
)

// FileFlag is the flag that names the settings file, FileEnv its variable.
const (
	FileFlag = "settings"
	FileEnv  = "STRAIT_SETTINGS"
)

// DefaultFile is read where it exists and no other was named.
const DefaultFile = "/etc/strait/strait.conf"

// Variable is the setting's environment variable.
func (s *Setting) Variable() string {
	if s.Env != "" {
		return s.Env
	}
	name := s.Flag
	if name == "" {
		name = s.Path
	}
	return "STRAIT_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// Text is Doc without the marks of the placeholder.
func (s *Setting) Text() string { return strings.ReplaceAll(s.Doc, "`", "") }

// find returns a setting by its path, nil where there is none.
func find(path string) *Setting {
	for i := range Table {
		if Table[i].Path == path {
			return &Table[i]
		}
	}
	return nil
}

func byFlag(flag string) *Setting {
	for i := range Table {
		if Table[i].Flag == flag {
			return &Table[i]
		}
	}
	return nil
}

// of says whether one of roles reads the setting.
func (s *Setting) of(roles Role) bool { return s.Roles&roles != 0 }

// option is the setting as a declared option: the file is decoded, and every value parsed, by plan/option.
func (s *Setting) option() option.Option {
	o := option.Option{Name: s.Path, Type: s.Type.option(), Secret: s.Secret, Enum: s.Enum, Min: s.Min, Doc: s.Text()}
	o.Split = s.Type == List
	o.Unit = "s"
	if s.Word != "" { // parse looks at it
		o.Type, o.Min = option.TString, nil
	}
	return o
}

func (t Type) option() option.Type {
	return [...]option.Type{option.TString, option.TInt, option.TDuration, option.TBytes, option.TEnum,
		option.TStrings, option.TStringMap}[t]
}

// spec is the whole table as the options of one block, the settings file.
func spec() *option.Spec {
	s := &option.Spec{Listing: "stctl serve --help"}
	for i := range Table {
		s.Options = append(s.Options, Table[i].option())
	}
	return s
}
