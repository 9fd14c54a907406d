package integration

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/integration/harness"
)

// What can be seen without running a job is tested beside the commands, in cmd/internal/cli/testdata/bad.

// unplain finds what no message for people holds: a stack, a failed format, a Go type, an error of the runtime.
var unplain = regexp.MustCompile(`panic|goroutine \d|\.go:\d|%!|0x[0-9a-f]{9,}|BUG|<nil>|&\{|map\[|\*?\b(errors|fs|os|net|json|kv|fault|option|config|logical|physical|record|plan|task|worker|file|csv|arrow|parquet|grpc|status|time|context|strconv)\.[A-Z]\w*|context (deadline|canceled)|strconv\.|rpc error`)

func wantPlain(t *testing.T, text string) {
	t.Helper()
	if m := unplain.FindString(text); m != "" {
		t.Errorf("a message for people holds %q:\n%s", m, text)
	}
}

// endLine is the last line that run prints: what became of the job.
var endLine = regexp.MustCompile(`(?m)^job \S+ \(\S*\) (FINISHED|FAILED|CANCELLED) in \S+?(?:: (.*))?$`)

// runText runs a job text in dir, which DIR stands for, and returns how it ended and why.
func runText(t *testing.T, dir, text string, args ...string) (phase, why string, r harness.Result) {
	t.Helper()
	path := writeJob(t, dir, strings.ReplaceAll(text, "DIR", dir))
	r = harness.Run(t, dir, limit, append([]string{"run", path}, args...)...)
	wantPlain(t, r.Stderr)
	m := endLine.FindStringSubmatch(r.Stderr)
	if m == nil {
		return "", strings.TrimSpace(strings.ReplaceAll(r.Stderr, dir, "DIR")), r
	}
	return m[1], strings.ReplaceAll(m[2], dir, "DIR"), r
}

const readCSV = `
source {
  LocalFile {
    path = "DIR/in"
    file_format_type = csv
    csv_use_header_line = true
    schema { fields { id = bigint, name = string, price = "decimal(5, 2)", day = date, ok = boolean, at = timestamp } }
  }
}
sink { Console { } }
`

const readJSON = `
source { LocalFile { path = "DIR/in", file_format_type = json, schema { fields { id = bigint, name = string, when = date } } } }
sink { Console { } }
`

const readText = `
source { LocalFile { path = "DIR/in", file_format_type = text, field_delimiter = "|", schema { fields { id = bigint, name = string } } } }
sink { Console { } }
`

// TestBadRows: the file, the row, the column and the text of what cannot be read.
func TestBadRows(t *testing.T) {
	f := func(name, job, file, content, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "in", file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			phase, why, r := runText(t, dir, job)
			want = fmt.Sprintf("pipeline 1: source.LocalFile.0, task group 1/0/0, worker run: source[0] (LocalFile) at split %q: file DIR/in/%s: %s",
				fmt.Sprintf("0:DIR/in/%s[0-%d]", file, len(content)), file, want)
			if r.Code != 1 || phase != "FAILED" || why != want {
				t.Errorf("exit %d, %s\n%s\nwant\n%s\n%s", r.Code, phase, why, want, r.Stderr)
			}
		})
	}
	const head = "id,name,price,day,ok,at\n1,Ada,1.50,2026-01-31,true,2026-01-31 08:00:00\n"
	f("too few fields", readCSV, "a.csv", head+"2,Grace\n", `row 3: the row has 2 of 6 fields`)
	f("too many fields", readCSV, "a.csv", head+"2,Grace,1,2026-01-31,true,2026-01-31 08:00:00,more\n", `row 3: the row has more than 6 fields`)
	f("no number", readCSV, "a.csv", head+"2x,Grace,1,2026-01-31,true,2026-01-31 08:00:00\n", `row 3: column id: "2x" is not a whole number`)
	f("a number too large", readCSV, "a.csv", head+"99999999999999999999,Grace,1,2026-01-31,true,2026-01-31 08:00:00\n", `row 3: column id: "99999999999999999999" does not fit the type`)
	f("no decimal", readCSV, "a.csv", head+"2,Grace,1.5.0,2026-01-31,true,2026-01-31 08:00:00\n", `row 3: column price: "1.5.0" is not a decimal number`)
	f("a decimal too large", readCSV, "a.csv", head+"2,Grace,12345.6,2026-01-31,true,2026-01-31 08:00:00\n", `row 3: column price: "12345.6" has more digits than the decimal type holds`)
	f("no date", readCSV, "a.csv", head+"2,Grace,1,2026-02-30,true,2026-01-31 08:00:00\n", `row 3: column day: "2026-02-30" is not a date of the pattern yyyy-MM-dd or another usual one; name its pattern with date_format`)
	f("no timestamp", readCSV, "a.csv", head+"2,Grace,1,2026-01-31,true,eight\n", `row 3: column at: "eight" is not a timestamp of the pattern yyyy-MM-dd HH:mm:ss or another usual one; name its pattern with datetime_format`)
	f("no boolean", readCSV, "a.csv", head+"2,Grace,1,2026-01-31,perhaps,2026-01-31 08:00:00\n", `row 3: column ok: "perhaps" is neither true nor false`)
	f("a quote without end", readCSV, "a.csv", head+"2,\"Grace,1,2026-01-31,true,2026-01-31 08:00:00\n", `row 3: has a quote that is never closed`)
	f("a value of another type", readJSON, "a.json", `{"id":1,"name":"Ada","when":"2026-01-31"}`+"\n"+`{"id":"x","name":"Grace"}`+"\n", `row 2: column id: "x" is not a whole number`)
	f("half an object", readJSON, "a.json", `{"id":1,"name":"Ada"}`+"\n"+`{"id":2,"name":`+"\n", `row 2: "{\"id\":2,\"name\":" is not JSON: cannot parse object value: cannot parse empty string`)
	f("no object", readJSON, "a.json", `[1, "Ada"]`+"\n", `row 1: "[1, \"Ada\"]" is not an object`)
	f("text", readText, "a.txt", "1|Ada\ntwo|Grace\n", `row 2: column id: "two" is not a whole number`)
}

// TestDamagedParquet: a file that was cut off, one whose pages are damaged, one that is something else.
func TestDamagedParquet(t *testing.T) {
	dir := t.TempDir()
	if phase, why, _ := runText(t, dir, `
source { FakeSource { row.num = 100, seed = 1, schema { fields { id = bigint, name = string } } } }
sink { LocalFile { path = "DIR/good", tmp_path = "DIR/tmp", file_format_type = parquet } }`); phase != "FINISHED" {
		t.Fatal(why)
	}
	good, err := filepath.Glob(filepath.Join(dir, "good", "*.parquet"))
	if err != nil || len(good) != 1 {
		t.Fatalf("%v, %v", good, err)
	}
	text, err := os.ReadFile(good[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(text)
	for i := 4; i < 200; i++ {
		damaged[i] ^= 0xa5
	}
	f := func(name string, content []byte, want string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "in.parquet"), content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, why, r := runText(t, dir, `
source { LocalFile { path = "DIR/in.parquet", file_format_type = parquet } }
sink { Console { } }`)
		if r.Code != 1 || !strings.Contains(why, want) {
			t.Errorf("%s: exit %d\n%s\nwant\n%s", name, r.Code, why, want)
		}
	}
	f("cut off", text[:len(text)/2], fmt.Sprintf(
		"DIR/job.conf:2: source[0] (LocalFile): file DIR/in.parquet: the file is cut off: it begins as parquet and has no footer at its end (byte %d)", len(text)/2))
	f("another format", []byte("id,name\n1,Ada\n"), "DIR/job.conf:2: source[0] (LocalFile): file DIR/in.parquet: ")
	f("damaged pages", damaged, "file DIR/in.parquet: row 1 cannot be read, the file is damaged")
}

// TestUnreadableFiles: of another user, gone between check and run, a folder in place of a file.
func TestUnreadableFiles(t *testing.T) {
	dir, err := os.MkdirTemp("", "strait-unreadable-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{"open", "closed"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	job := `
source { LocalFile { path = "` + dir + `/PATH", file_format_type = csv, schema { fields { id = bigint } } } }
sink { Console { } }
`
	for path, text := range map[string]string{
		"open/file.csv": "1\n", "closed/file.csv": "1\n", "closed.conf": job,
		"file.conf":   strings.ReplaceAll(job, "PATH", "open/file.csv"),
		"folder.conf": strings.ReplaceAll(job, "PATH", "closed"),
		"gone.conf":   strings.ReplaceAll(job, "PATH", "gone/*.csv"),
		"sink.conf": `source { FakeSource { schema { fields { id = bigint } } } }
sink { LocalFile { path = "` + dir + `/closed/out", tmp_path = "` + dir + `/closed/tmp", file_format_type = csv } }
env { job.retry.times = 0 }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"open/file.csv", "closed", "closed.conf"} {
		if err := os.Chmod(filepath.Join(dir, path), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(job string) harness.Result {
		p := harness.Command(t, dir, "run", filepath.Join(dir, job))
		asNobody(t, dir, p)
		if err := p.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return p.Wait(t, limit)
	}
	f := func(job, want string) {
		t.Helper()
		r := run(job)
		wantPlain(t, r.Stderr)
		if got := strings.ReplaceAll(r.Stderr, dir, "DIR"); r.Code != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: exit %d\n%s\nwant\n%s", job, r.Code, got, want)
		}
	}
	f("closed.conf", "job file DIR/closed.conf may not be read by this user; give it the right to\n")
	f("file.conf", "FAILED")
	f("file.conf", "open DIR/open/file.csv: permission denied; give the user of the worker the right to read it\n")
	f("folder.conf", "DIR/folder.conf:2: source[0] (LocalFile): path: DIR/closed: permission denied; give the user of the worker the right to read it\n")
	f("gone.conf", "DIR/gone.conf:2: source[0] (LocalFile): path: DIR/gone/*.csv does not exist on this host; write the path of a file or folder that every worker sees\n")
	f("sink.conf", "FAILED")
	f("sink.conf", "mkdir DIR/closed/tmp: permission denied; give the user of the worker the right to write there or set tmp_path\n")
	f("sink.conf", "left behind: ")
}

// asNobody lets a child run as a user without rights, where the test itself is root.
func asNobody(t *testing.T, dir string, p *harness.Process) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	bin := filepath.Join(dir, "stctl")
	if _, err := os.Stat(bin); err != nil {
		text, err := os.ReadFile(harness.Binary(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(bin, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tmp := filepath.Join(dir, "tmp-of-nobody")
	if err := os.MkdirAll(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	p.Cmd.Path, p.Cmd.Args[0] = bin, bin
	p.Cmd.Env = append(p.Cmd.Env, "TMPDIR="+tmp)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// TestFullDisk: of a sink's folder and of etcd's.
func TestFullDisk(t *testing.T) {
	const want = "no space left on device; free space there or set tmp_path to another folder; job.retry.times allows no restart"
	const job = `
env { job.retry.times = 0 }
source { FakeSource { row.num = 200000, schema { fields { id = bigint, name = string } } } }
sink { LocalFile { path = "FULL/out", tmp_path = "FULL/tmp", file_format_type = FORMAT } }
`
	full := t.TempDir()
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=256k"); err != nil {
		t.Logf("no file system of 256 KiB can be had (%v), a limit of the process stands in", err)
		dir := t.TempDir()
		path := writeJob(t, dir, strings.NewReplacer("FULL", dir, "FORMAT", "csv", "200000", "2000000").Replace(job))
		p := harness.Command(t, dir, "run", path)
		// 8 MiB a file: enough for etcd, less than the job writes.
		p.Cmd.Args = append([]string{"sh", "-c", `ulimit -f 16384; exec "$0" "$@"`, p.Cmd.Path}, p.Cmd.Args[1:]...)
		if p.Cmd.Path, err = exec.LookPath("sh"); err != nil {
			t.Skip("no sh")
		}
		if err := p.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if r := p.Wait(t, limit); r.Code != 1 || !strings.Contains(r.Stderr, "file too large") {
			t.Errorf("exit %d\n%s", r.Code, r.Stderr)
		}
		return
	}
	t.Cleanup(func() { _ = syscall.Unmount(full, syscall.MNT_DETACH) })
	for _, format := range []string{"csv", "json", "text", "parquet"} {
		phase, why, r := runText(t, t.TempDir(), strings.NewReplacer("FULL", full, "FORMAT", format).Replace(job))
		if r.Code != 1 || phase != "FAILED" || !strings.Contains(why, want) || !strings.Contains(why, full+"/tmp/") {
			t.Errorf("%s: exit %d, %s\n%s\nwant\n%s", format, r.Code, phase, why, want)
		}
		left := 0
		_ = filepath.WalkDir(full, func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left++
			}
			return nil
		})
		if left > 0 {
			t.Errorf("%s: %d files are left on the full disk", format, left)
		}
	}
	dir := t.TempDir()
	data := filepath.Join(full, "data")
	r := harness.Run(t, dir, limit, "run", "--data-dir", data, writeJob(t, dir, endless))
	wantPlain(t, r.Stderr)
	if said := "--data-dir " + data + ": etcd failed in " + data + "/etcd: "; r.Code != 1 || !strings.HasPrefix(r.Stderr, said) || !strings.Contains(r.Stderr, "no space left on device") {
		t.Errorf("etcd: exit %d\n%s\nwant\n%s", r.Code, r.Stderr, said)
	}
}

// TestPortsInUse: each of the three ports of a role, with the flag that names another.
func TestPortsInUse(t *testing.T) {
	f := harness.Start(t, harness.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	try := func(flag string, args ...string) {
		t.Helper()
		r := harness.Run(t, f.Dir, limit, append(args, flag, taken)...)
		want := fmt.Sprintf("%s %s is in use by another process; choose another port, or 0 for any free one\n", flag, taken)
		if r.Code != 1 || !strings.HasSuffix(r.Stderr, want) {
			t.Errorf("%v: exit %d\n%swant\n%s", args, r.Code, r.Stderr, want)
		}
		wantPlain(t, r.Stderr)
	}
	data := func() []string { return []string{"--data-dir", t.TempDir()} }
	worker := []string{"serve", "worker", "--name", "w1", "--etcd-endpoints", f.Etcd}
	try("--etcd-listen", append([]string{"serve", "coordinator"}, data()...)...)
	try("--etcd-listen", append([]string{"serve", "standalone"}, data()...)...)
	try("--ops-listen", append([]string{"serve", "coordinator", "--etcd-listen", "127.0.0.1:0"}, data()...)...)
	try("--ops-listen", append([]string{"serve", "standalone", "--etcd-listen", "127.0.0.1:0"}, data()...)...)
	try("--ops-listen", worker...)
	try("--data-listen", worker...)
	try("--data-listen", append([]string{"serve", "standalone", "--etcd-listen", "127.0.0.1:0"}, data()...)...)
}

func TestDataDirInUse(t *testing.T) {
	f := harness.Start(t, harness.Options{})
	dir := filepath.Join(f.Dir, "c1")
	job := writeJob(t, f.Dir, endless)
	for _, args := range [][]string{
		{"run", "--data-dir", dir, job},
		{"serve", "coordinator", "--etcd-listen", "127.0.0.1:0", "--data-dir", dir},
		{"serve", "standalone", "--etcd-listen", "127.0.0.1:0", "--data-dir", dir},
	} {
		r := harness.Run(t, f.Dir, limit, args...)
		want := fmt.Sprintf("--data-dir %s: data directory is in use: %s/etcd is held by another process (pid %d); stop that process or name another directory\n",
			dir, dir, f.Process("c1").Cmd.Process.Pid)
		if r.Code != 1 || r.Stderr != want {
			t.Errorf("%v: exit %d\n%swant\n%s", args, r.Code, r.Stderr, want)
		}
	}
}

// TestEtcdUnreachable: every command that needs etcd ends by itself and says what to do, at a port that refuses
// and at one that is open and mute.
func TestEtcdUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := refuses.Addr().String()
	_ = refuses.Close()
	dir := t.TempDir()
	job := writeJob(t, dir, endless)
	var children []*harness.Process
	for _, at := range []string{closed, ln.Addr().String()} {
		for _, args := range []string{
			"job submit " + job, "job submit --detach --output json " + job, "job list", "job status x", "job describe x", "job wait x", "job cancel x",
			"job cancel --detach x", "worker list", "worker list -o json", "serve worker --name w1", "serve coordinator --name c1", "serve standalone --name s1",
			"job wait x --timeout 1h",
		} {
			words := strings.Fields(args)
			if words[0] == "serve" { // its own flags, also where the fleet's etcd is
				words = append(words, "--etcd-endpoints", at)
			} else {
				words = append([]string{"--etcd-endpoints", at}, words...)
			}
			p := harness.Command(t, dir, words...)
			if err := p.Cmd.Start(); err != nil {
				t.Fatal(err)
			}
			children = append(children, p)
		}
	}
	for _, p := range children {
		at := closed
		port := "(dial tcp " + closed + ": connect: connection refused)"
		if strings.Contains(strings.Join(p.Cmd.Args, " "), ln.Addr().String()) {
			at, port = ln.Addr().String(), "(the port is open; is it the one for clients, and does it want TLS?)"
		}
		r := p.Wait(t, limit)
		want := fmt.Sprintf("etcd unreachable: no answer from %s %s; start etcd there or name the right endpoints with --etcd-endpoints; "+
			"is no coordinator running? `stctl serve coordinator --data-dir DIR` starts one with its etcd\n", at, port)
		if r.Code != 1 || r.Stdout != "" || r.Stderr != want {
			t.Errorf("%v: exit %d\n%s%swant\n%s", p.Cmd.Args[1:], r.Code, r.Stdout, r.Stderr, want)
		}
	}
	r := harness.Run(t, dir, limit, "--etcd-endpoints", closed, "job", "wait", "x", "--timeout", "100ms")
	if r.Code != 124 || !strings.HasPrefix(r.Stderr, "timed out after 100ms: etcd unreachable: no answer from "+closed) {
		t.Errorf("--timeout below the time that etcd has: exit %d\n%s", r.Code, r.Stderr)
	}
	wantPlain(t, r.Stderr)
}

// TestNotPlaceable: a job that no worker of this process may take.
func TestNotPlaceable(t *testing.T) {
	_, why, r := runText(t, t.TempDir(), `
env { tag_filter { zone = "b" } }
source { FakeSource { schema { fields { id = bigint } } } }
sink { Console { } }`)
	if r.Code != 2 || !strings.Contains(why, "zone=b") {
		t.Errorf("exit %d, want 2\n%s", r.Code, r.Stderr)
	}
}

// TestClosedOutput: `stctl run … | head` ends the job and leaves nothing behind.
func TestClosedOutput(t *testing.T) {
	dir := t.TempDir()
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := harness.Command(t, dir, "run", writeJob(t, dir, `
env { job.mode = "STREAMING" }
source { FakeSource { row.num = 1000000, split.num = 1000, split.read-interval = 10, schema { fields { id = bigint } } } }
sink { Console { } }`))
	p.Cmd.Stdout = w
	p.Cmd.Env = append(p.Cmd.Env, "TMPDIR="+tmp)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	res := p.Wait(t, limit)
	if res.Code != 3 || !strings.Contains(res.Stderr, "nobody reads standard output any more; cancelling") || !strings.Contains(res.Stderr, "CANCELLED") {
		t.Errorf("exit %d, want 3\n%s", res.Code, res.Stderr)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// TestHugeJobFile: 100 MB of job file are refused before they are read.
func TestHugeJobFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.conf")
	line := strings.Repeat("# a line of a job file that is much too long\n", 1000)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for size < 100_000_000 {
		n, err := file.WriteString(line)
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, c := range []string{"check", "plan", "run"} {
		r := harness.Run(t, filepath.Dir(path), limit, c, "huge.conf")
		if want := fmt.Sprintf("huge.conf: the file has %d bytes; a job file has at most 8388608 (8 MiB)\n", size); r.Code != 1 || r.Stderr != want {
			t.Errorf("%s: exit %d\n%swant\n%s", c, r.Code, r.Stderr, want)
		}
	}
	t.Logf("three commands took %v", time.Since(begin))
}
