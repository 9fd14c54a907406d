package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
)

// helpWidth is where the texts of flags and commands are wrapped.
const helpWidth = 110

const exitCodes = `Exit codes: 0 finished, 1 failed, 2 not placeable, 3 cancelled, 124 timed out (--timeout).
`

// writeHelp prints the help of stctl itself (no commands) or of the last of the commands.
func writeHelp(w io.Writer, app *cli.App, l *line) error {
	var b strings.Builder
	title := l.title(app)
	usage, args, about, flags, subs := app.Usage, "", app.Description, app.Flags, app.Commands
	if n := len(l.commands); n > 0 {
		c := l.commands[n-1]
		usage, args, about, flags, subs = c.Usage, c.ArgsUsage, c.Description, c.Flags, c.Subcommands
	}
	fmt.Fprintf(&b, "%s: %s\n\nUsage:\n  %s", title, usage, title)
	if len(subs) > 0 {
		b.WriteString(" COMMAND")
	}
	if args != "" {
		b.WriteString(" " + args)
	}
	b.WriteString(" [flags]\n")
	if about != "" {
		b.WriteString("\n" + strings.TrimSpace(about) + "\n")
	}
	if len(subs) > 0 {
		var rows [][2]string
		for _, c := range subs {
			if !c.Hidden {
				rows = append(rows, [2]string{strings.Join(c.Names(), ", "), c.Usage})
			}
		}
		b.WriteString("\nCommands:\n")
		columns(&b, rows)
	}
	var rows [][2]string
	for _, f := range flags {
		if head, text := flagHelp(f); head != "" {
			rows = append(rows, [2]string{head, text})
		}
	}
	rows = append(rows, [2]string{"-h, --help", "this text"})
	b.WriteString("\nFlags:\n")
	columns(&b, rows)
	if len(l.commands) > 0 {
		settingsHelp(&b, flags, l.title(app))
	}
	if len(l.commands) == 0 {
		b.WriteString("\nBehind a flag stands its environment variable and its path in the settings file.\n" + settings.Order + "\n")
		b.WriteString("`stctl COMMAND --help` explains a command. `stctl completion bash` prints the completion for bash.\n\n" + exitCodes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// settingsHelp ends the help of a command that has settings: those without a flag, and which value counts. serve
// itself shows all of them.
func settingsHelp(b *strings.Builder, flags []cli.Flag, title string) {
	if strings.HasSuffix(title, " serve") {
		b.WriteString("\nSettings:\n")
		columns(b, settings.Reference())
		b.WriteString("\n" + settings.Order + "\nThe file is --settings FILE, else $STRAIT_SETTINGS, else " + settings.DefaultFile +
			" where it exists; scripts/strait.conf is a sample.\n")
		return
	}
	if rows := settings.Secrets(flags); len(rows) > 0 {
		b.WriteString("\nSettings without a flag, for the environment and the settings file:\n")
		columns(b, rows)
	}
}

// flagHelp gives the two columns of a flag.
func flagHelp(f cli.Flag) (head, text string) {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok || !f.(cli.VisibleFlag).IsVisible() {
		return "", ""
	}
	long, short := "", "   "
	for _, n := range f.Names() {
		switch {
		case len(n) == 1:
			short = " -" + n
		case long == "":
			long = "--" + n
		}
	}
	if f.Names()[0] == "help" {
		return "", ""
	}
	head = strings.TrimPrefix(short, " ") + ", " + long
	if strings.TrimSpace(short) == "" {
		head = "    " + long
	}
	if d.TakesValue() {
		head += " " + placeholder(f)
	}
	text = strings.ReplaceAll(d.GetUsage(), "`", "")
	if v := d.GetValue(); d.TakesValue() && v != "" && v != "0" && v != "0s" && v != "[]" {
		text += " (default " + v + ")"
	}
	if s := settings.Of(f); s != nil {
		text = s.Help()
	}
	return head, text
}

// placeholder is what stands for the value of a flag: the word in back-quotes of its usage.
func placeholder(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return "VALUE"
	}
	if _, rest, ok := strings.Cut(d.GetUsage(), "`"); ok {
		word, _, _ := strings.Cut(rest, "`")
		return word
	}
	switch f.(type) {
	case *cli.IntFlag:
		return "N"
	case *cli.DurationFlag:
		return "DURATION"
	}
	return "VALUE"
}

// columns writes rows of two columns, the second wrapped.
func columns(b *strings.Builder, rows [][2]string) {
	wide := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(r[0]); n <= 32 {
			wide = max(wide, n)
		}
	}
	margin := strings.Repeat(" ", wide+5)
	for _, r := range rows {
		n := utf8.RuneCountInString(r[0])
		b.WriteString("  " + r[0])
		if n > wide {
			b.WriteString("\n" + margin)
		} else {
			b.WriteString(strings.Repeat(" ", wide-n+3))
		}
		at := wide + 5
		for i, word := range strings.Fields(r[1]) {
			size := utf8.RuneCountInString(word)
			switch {
			case i > 0 && at+1+size > helpWidth:
				b.WriteString("\n" + margin)
				at = wide + 5
			case i > 0:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += size
		}
		b.WriteByte('\n')
	}
}
