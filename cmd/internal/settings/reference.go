package settings

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// Help is the text of a flag's or a setting's help: what it does, its default, its variable, its path in the file.
func (s *Setting) Help() string {
	text := s.Text()
	if s.Default != "" {
		text += " (default " + s.Default + ")"
	}
	return text + " [" + strings.TrimSpace("$"+s.Variable()+" "+s.Path) + "]"
}

// Secrets lists the secrets of a command with these flags, path and text: a secret has no flag, its file has one.
func Secrets(flags []cli.Flag) [][2]string {
	var out [][2]string
	for _, f := range flags {
		if file := Of(f); file != nil {
			if s := find(strings.TrimSuffix(file.Path, "-file")); s != nil && s.Secret {
				out = append(out, [2]string{s.Path, s.Help()})
			}
		}
	}
	return out
}

// Reference lists every setting: its path; what it does, its default, its flag and its variable, and
// who reads it.
func Reference() [][2]string {
	var out [][2]string
	for i := range Table {
		s := &Table[i]
		text := s.Text()
		if s.Default != "" {
			text += " (default " + s.Default + ")"
		}
		names := "$" + s.Variable()
		if s.Flag != "" {
			names = "--" + s.Flag + " " + names
		}
		out = append(out, [2]string{s.Path, text + " [" + names + "] (" + s.Roles.String() + ")"})
	}
	return out
}

// String names the roles as help does.
func (r Role) String() string {
	var out []string
	if r&Coordinator != 0 {
		out = append(out, "coordinator")
	}
	if r&Worker != 0 {
		out = append(out, "worker")
	}
	if r&Client != 0 {
		out = append(out, "other commands")
	}
	return strings.Join(out, ", ")
}

// Order is said at the end of help.
const Order = "A setting counts from its flag, else its environment variable, else the settings file, else its default."

const sampleHead = `# The settings of Strait. Every setting stands here with its default, or with an example where it has none or where
# the default depends on the host. Take the # off a line to set it. One file serves all roles of a host.
#
# Which file: --settings FILE, else STRAIT_SETTINGS, else %s where it exists.
# Which value: the flag, else the environment variable, else this file, else the default.
# ${NAME} takes a value from the environment. A size is 64MiB, a time 10s or 5m. a.b = 1 and a { b = 1 } are one key.
#
# Made from the table of cmd/internal/settings; its test keeps them equal.
`

// Sample is the sample file: every setting, commented out.
func Sample() string {
	var b strings.Builder
	fmt.Fprintf(&b, sampleHead, DefaultFile)
	for i := range Table {
		s := &Table[i]
		b.WriteByte('\n')
		for _, line := range wrap(s.sampleText(), 116) {
			b.WriteString("# " + line + "\n")
		}
		fmt.Fprintf(&b, "#%s = %s\n", s.Path, s.written())
	}
	return b.String()
}

func (s *Setting) sampleText() string {
	text := s.Text() + ". "
	if s.Default == "" {
		text += "An example. "
	}
	if s.Flag != "" {
		text += "--" + s.Flag + ", "
	}
	return text + "$" + s.Variable() + "; " + s.Roles.String() + "."
}

// written is the value of the sample as HOCON has it.
func (s *Setting) written() string {
	text := s.Default
	if text == "" {
		text = s.Example
	}
	switch s.Type {
	case String:
		return fmt.Sprintf("%q", text)
	case List:
		parts := strings.Split(text, ",")
		for i, p := range parts {
			parts[i] = fmt.Sprintf("%q", p)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return text
}

// wrap breaks a text into lines of at most width letters.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
