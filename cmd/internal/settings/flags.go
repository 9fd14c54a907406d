package settings

import "github.com/urfave/cli/v2"

// fileSetting is --settings, which is in no file.
var fileSetting = Setting{Flag: FileFlag, Env: FileEnv, Doc: "`FILE` with settings, HOCON; " + DefaultFile + " otherwise, where it exists"}

// Flags are the flags of a command that is run by roles, --settings last. Their values are read by Load alone:
// they have no default and no variable of their own here.
func Flags(roles Role) []cli.Flag {
	var out []cli.Flag
	for i := range Table {
		if s := &Table[i]; s.Flag != "" && s.of(roles) {
			out = append(out, s.flag())
		}
	}
	if roles&^Run != 0 {
		out = append(out, fileSetting.flag())
	}
	return out
}

// Flag is the flag of one setting.
func Flag(path string) cli.Flag { return declared(path).flag() }

// ofTable marks the flags made here: other commands have flags of the same name that are no settings.
const ofTable = "setting"

func (s *Setting) flag() cli.Flag {
	if s.Type == Pairs {
		return &cli.StringSliceFlag{Name: s.Flag, Usage: s.Doc, Category: ofTable}
	}
	return &cli.StringFlag{Name: s.Flag, Usage: s.Doc, Category: ofTable}
}

// Of is the setting that a flag sets, nil where it is another flag.
func Of(f cli.Flag) *Setting {
	c, ok := f.(cli.CategorizableFlag)
	switch {
	case !ok || c.GetCategory() != ofTable:
		return nil
	case f.Names()[0] == FileFlag:
		return &fileSetting
	}
	return byFlag(f.Names()[0])
}
