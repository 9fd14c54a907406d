package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/seal"
	"strait/plan/secret"
)

func secretCommand() *cli.Command {
	key := settings.Flag("secret.key-file")
	sealer := []cli.Flag{key, outputFlag()}
	return &cli.Command{
		Name: "secret", Usage: "seal the secrets of jobs, keep the fleet's keys",
		Subcommands: []*cli.Command{
			{Name: "key", Usage: "the keys of a fleet", Subcommands: []*cli.Command{
				{Name: "new", Usage: "make a key file; without --file print the line of one",
					Flags:  []cli.Flag{&cli.StringFlag{Name: "file", Usage: "`FILE` to make, readable by its owner only"}},
					Action: newSecretKey},
				{Name: "rotate", Usage: "put a new key in front of those of a key file: it seals from then on, the others still open",
					Flags: []cli.Flag{&cli.StringFlag{Name: "file", Usage: "`FILE` with the keys"}}, Action: rotateSecretKey},
			}},
			{Name: "seal", Usage: "seal a value from standard input, or the secrets in a job file, and print what comes out", ArgsUsage: "[FILE]",
				Description: "The token may stand in a job file wherever the value could, also inside a URL.", Flags: sealer, Action: sealSecret},
			{Name: "reseal", Usage: "seal the tokens in job files again, under the first key", ArgsUsage: "FILE…", Flags: sealer, Action: resealFiles},
			{Name: "list", Usage: "which keys the stored jobs use, so that an old one can go", Flags: append(settings.Flags(settings.Client), key, outputFlag()),
				Action: withClient(listSecretKeys)},
			{Name: "shade", Usage: "encode or decode the options of a job file that env.shade.identifier names (base64: no secret is safe with it)",
				Subcommands: []*cli.Command{
					{Name: "encrypt", Usage: "print the file with its user names and passwords encoded", ArgsUsage: "FILE", Action: shadeAction(true)},
					{Name: "decrypt", Usage: "print the file with its user names and passwords decoded", ArgsUsage: "FILE", Action: shadeAction(false)},
				}},
		},
	}
}

func newSecretKey(c *cli.Context) error {
	if path := c.String("file"); path != "" {
		k, err := createKeys(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.ErrWriter, "%s made, with key %s; give every host of the fleet the same file and name it with --secret-key-file\n", path, k.ID)
		return nil
	}
	k, err := secret.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, k.Line())
	return err
}

func rotateSecretKey(c *cli.Context) error {
	path := c.String("file")
	if path == "" {
		return failf("%s: --file is missing; name the key file", c.Command.HelpName)
	}
	ring, err := readKeys(c.App.ErrWriter, path)
	if err != nil {
		return failf("%v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return failf("%s: %v", path, cause(err))
	}
	k, err := secret.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	// The first line that is a key: comments before it stay in front.
	lines := strings.SplitAfter(string(text), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), ring.IDs()[0]+" ") })
	changed := strings.Join(slices.Insert(lines, at, k.Line()+"\n"), "")
	if _, err := secret.ParseKeyring([]byte(changed), path); err != nil {
		return failf("%v", err)
	}
	if err := replaceFile(path, []byte(changed)); err != nil {
		return failf("%s: %v", path, err)
	}
	fmt.Fprintf(c.App.ErrWriter, `%s: key %s seals now, %s still open
1. give the file to every host of the fleet and restart its roles, one after the other
2. stctl secret reseal FILE… for the job files that hold tokens
3. stctl secret list shows when no job uses an old key; then its line can go from the file, on every host
`, path, k.ID, strings.Join(ring.IDs(), ", "))
	return nil
}

// neededKeys are the keys of a command that is of no use without.
func neededKeys(c *cli.Context) (*secret.Keyring, error) {
	set, err := load(c, settings.Sealer)
	if err != nil {
		return nil, err
	}
	ring, err := keyring(c.App.ErrWriter, set)
	if err == nil && ring == nil {
		err = failf("%s: --secret-key-file is missing; `stctl secret key new --file FILE` makes a key file for the fleet", c.Command.HelpName)
	}
	return ring, err
}

func sealSecret(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	ring, err := neededKeys(c)
	if err != nil {
		return err
	}
	switch c.NArg() {
	case 0:
	case 1:
		return sealFile(c, ring, c.Args().First())
	default:
		return failf("%s takes one job file, or none and a value on standard input; a value on the command line would be seen by others", c.Command.HelpName)
	}
	value, err := readSecret(c)
	if err != nil {
		return err
	}
	token, err := ring.Seal(value, rand.Reader)
	if err != nil {
		return err
	}
	if form == "json" {
		return writeJSON(c.App.Writer, struct {
			Token string `json:"token"`
			Key   string `json:"key"`
		}{token, ring.IDs()[0]})
	}
	_, err = fmt.Fprintln(c.App.Writer, token)
	return err
}

// sealFile prints a job file as it would be stored, but for variables, which stay as they are.
func sealFile(c *cli.Context, ring *secret.Keyring, path string) error {
	text, err := readText(path)
	if err != nil {
		return err
	}
	out, warnings, err := seal.Text(seal.Job{File: path, Text: string(text)}, catalog{}, ring, rand.Reader)
	warn(c.App.ErrWriter, warnings)
	if err == nil {
		_, err = io.WriteString(c.App.Writer, out.Text)
	}
	return err
}

// maxSecret bounds a value on standard input.
const maxSecret = 64 << 10

// readSecret reads a value: what comes in up to its end, without the last line end; or a line that a person types,
// which is not shown.
func readSecret(c *cli.Context) (string, error) {
	in := c.App.Reader
	var data []byte
	var err error
	if f, ok := in.(*os.File); ok && isTerminal(f) {
		fmt.Fprint(c.App.ErrWriter, "Secret: ")
		data, err = readHidden(f)
		fmt.Fprintln(c.App.ErrWriter)
	} else {
		data, err = io.ReadAll(io.LimitReader(in, maxSecret+1))
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read the value from standard input: %w", err)
	case len(data) > maxSecret:
		return "", failf("the value has more than %d bytes", maxSecret)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 {
		return "", failf("the value is empty; write it to standard input: printf %%s \"$PASSWORD\" | %s", c.Command.HelpName)
	}
	return string(data), nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// readHidden reads a line from a terminal that does not show it.
func readHidden(f *os.File) ([]byte, error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &hidden); err != nil {
		return nil, err
	}
	ctx, stop := interrupts(context.Background())
	defer stop()
	// An interrupt must not leave the terminal mute.
	defer context.AfterFunc(ctx, func() {
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, before)
		os.Exit(ExitCancelled)
	})()
	defer func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }()
	var line []byte
	for b := make([]byte, 1); len(line) <= maxSecret; {
		n, err := f.Read(b)
		if n == 0 || b[0] == '\n' || errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
		line = append(line, b[0])
	}
	return line, nil
}

func resealFiles(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	ring, err := neededKeys(c)
	if err != nil {
		return err
	}
	if c.NArg() == 0 {
		return failf("the job files are missing; write %s FILE…", c.Command.HelpName)
	}
	type done struct {
		File   string `json:"file"`
		Tokens int    `json:"tokens"` // sealed again
	}
	all := []done{}
	var list fault.List
	for _, path := range c.Args().Slice() {
		n, err := resealFile(ring, path)
		if err != nil {
			list.AddError(err)
			continue
		}
		all = append(all, done{path, n})
		if form != "json" {
			fmt.Fprintf(c.App.Writer, "%s: %d tokens sealed under key %s\n", path, n, ring.IDs()[0])
		}
	}
	if form == "json" {
		if err := writeJSON(c.App.Writer, all); err != nil {
			return err
		}
	}
	return list.Err()
}

// resealFile seals those tokens of a file again that are under another key than the first.
func resealFile(ring *secret.Keyring, path string) (int, error) {
	text, err := readText(path)
	if err != nil {
		return 0, err
	}
	var b strings.Builder
	line, n := 1, 0
	for _, p := range secret.Split(string(text)) {
		out := p.Text
		if p.Kind == secret.Sealed && p.Token.Key != ring.IDs()[0] {
			value, err := ring.Open(p.Token)
			if err != nil {
				return 0, fmt.Errorf("%s:%d: %w", path, line, err)
			}
			if out, err = ring.Seal(value, rand.Reader); err != nil {
				return 0, err
			}
			n++
		}
		line += strings.Count(p.Text, "\n")
		b.WriteString(out)
	}
	if n == 0 {
		return 0, nil
	}
	if err := replaceFile(path, []byte(b.String())); err != nil {
		return 0, failf("%s: %v", path, err)
	}
	return n, nil
}

// keyUse says who needs a key.
type keyUse struct {
	Key   string       `json:"key"`
	Held  bool         `json:"held"`            // by the key file here
	Seals bool         `json:"seals,omitempty"` // it is the first there
	Jobs  []plan.JobID `json:"jobs,omitempty"`  // that have not ended
	Ended []plan.JobID `json:"ended,omitempty"`
}

func listSecretKeys(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
	set, err := load(c, settings.Client|settings.Sealer)
	if err != nil {
		return err
	}
	ring, err := keyring(c.App.ErrWriter, set)
	if err != nil {
		return err
	}
	uses := []*keyUse{}
	use := func(id string) *keyUse {
		for _, u := range uses {
			if u.Key == id {
				return u
			}
		}
		uses = append(uses, &keyUse{Key: id})
		return uses[len(uses)-1]
	}
	for i, id := range ring.IDs() {
		u := use(id)
		u.Held, u.Seals = true, i == 0
	}
	jobs, err := cl.List(ctx, client.Filter{})
	if err != nil {
		return err
	}
	for i := range jobs {
		j, err := cl.Get(ctx, jobs[i].ID)
		if errors.Is(err, client.ErrNoJob) || err == nil && j.Spec == nil {
			continue // gone meanwhile
		}
		var text string
		if err == nil {
			text, err = cl.Text(ctx, j.ID, j.Spec)
		}
		if err != nil {
			return err
		}
		for _, id := range secret.Keys(text) {
			u := use(id)
			if j.Status != nil && j.Status.Phase.Terminal() {
				u.Ended = append(u.Ended, j.ID)
			} else {
				u.Jobs = append(u.Jobs, j.ID)
			}
		}
	}
	if form == "json" {
		return writeJSON(c.App.Writer, uses)
	}
	rows := [][]string{{"KEY", "IN FILE", "JOBS", "ENDED"}}
	for _, u := range uses {
		held := "no"
		switch {
		case u.Seals:
			held = "first"
		case u.Held:
			held = "yes"
		case ring == nil:
			held = "?"
		}
		rows = append(rows, []string{u.Key, held, some(u.Jobs), some(u.Ended)})
	}
	return table(c.App.Writer, rows)
}

// some is the number of jobs and the first of them.
func some(ids []plan.JobID) string {
	if len(ids) == 0 {
		return "0"
	}
	names := make([]string, 0, 4)
	for _, id := range ids[:min(3, len(ids))] {
		names = append(names, string(id))
	}
	if len(ids) > 3 {
		names = append(names, "…")
	}
	return fmt.Sprintf("%d: %s", len(ids), strings.Join(names, ", "))
}

func shadeAction(encode bool) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() != 1 {
			return failf("%s takes one job file", c.Command.HelpName)
		}
		return shade(c, c.Args().First(), encode)
	}
}

// shade prints a job file with the options that env.shade.identifier names encoded or decoded.
func shade(c *cli.Context, path string, encode bool) error {
	text, err := readText(path)
	if err != nil {
		return err
	}
	if text, err = config.Shade(text, path, encode); err == nil {
		_, err = c.App.Writer.Write(text)
	}
	return err
}

// shadeFlags are SeaTunnel's: seatunnel.sh --encrypt -c FILE.
func shadeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "encrypt", Usage: "as `secret shade encrypt`, of the file that -c names"},
		&cli.BoolFlag{Name: "decrypt", Usage: "as `secret shade decrypt`, of the file that -c names"},
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "job `FILE` of --encrypt and --decrypt"},
	}
}

// shadeByFlag does what shadeFlags ask for; false: nothing of it.
func shadeByFlag(c *cli.Context) (bool, error) {
	encode, decode, path := c.Bool("encrypt"), c.Bool("decrypt"), c.String("config")
	switch {
	case !encode && !decode && path == "":
		return false, nil
	case encode && decode:
		return true, failf("stctl: --encrypt and --decrypt exclude each other")
	case !encode && !decode:
		return true, failf("stctl -c %s: write --encrypt or --decrypt before it; to run the job write `stctl run %s`", path, path)
	case path == "" || c.NArg() > 0:
		return true, failf("stctl --encrypt, --decrypt: name the job file with -c FILE")
	}
	return true, shade(c, path, encode)
}
