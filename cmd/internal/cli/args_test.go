package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/kv/keys"
)

func TestFlagsMayFollowArguments(t *testing.T) {
	app := newApp(nil, nil)
	f := func(given, want string) {
		t.Helper()
		l, err := take(app, strings.Split("stctl "+given, " "))
		if err != nil {
			t.Errorf("%s: %v", given, err)
			return
		}
		if got := strings.Join(l.args[1:], " "); got != want {
			t.Errorf("%s: became %q, want %q", given, got, want)
		}
	}
	f("run job.conf -i a=b", "run -i a=b job.conf")
	f("run job.conf -i a=b --parallelism=2 -i c=d", "run -i a=b --parallelism=2 -i c=d job.conf")
	f("run -i a=b job.conf", "run -i a=b job.conf")
	f("check job.conf --strict", "check --strict job.conf")
	f("check --strict job.conf -o json", "check --strict -o json job.conf")
	f("--prefix /x job status id --output json", "--prefix /x job status --output json id")
	f("job cancel -d id --timeout 5s", "job cancel -d --timeout 5s id")
	f("check job job", "check job job") // a file may be called like a command
	f("run -- -odd.conf", "run -- -odd.conf")
	f("run --name -x job.conf", "run --name -x job.conf") // the value of a flag may look like one
	f("run - ", "run - ")
	f("", "")
}

func TestHelpIsFound(t *testing.T) {
	app := newApp(nil, nil)
	f := func(given, title string, help bool) {
		t.Helper()
		l, err := take(app, strings.Split("stctl "+given, " "))
		if err != nil || l.help != help || l.title(app) != title {
			t.Errorf("%s: %v, help %v of %q, want %v of %q", given, err, l.help, l.title(app), help, title)
		}
	}
	f("--help", "stctl", true)
	f("-h", "stctl", true)
	f("help", "stctl", true)
	f("help run", "stctl run", true)
	f("run --help", "stctl run", true)
	f("run job.conf -h", "stctl run", true)
	f("job help submit", "stctl job submit", true)
	f("help job submit", "stctl job submit", true)
	f("run help", "stctl run", false) // a file called help
	f("run -- --help", "stctl run", false)
	f("run --name help x", "stctl run", false)
}

func TestUsageMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(given, want string) {
		t.Helper()
		r := stctl(t, strings.Fields(given)...)
		if r.code != ExitFailed || r.stdout != "" || r.stderr != want+"\n" {
			t.Errorf("stctl %s: exit %d, standard output %q, said\n%swant\n%s", given, r.code, r.stdout, r.stderr, want)
		}
	}
	const all = "run, serve, job, secret, worker, check, plan, connector, doctor, version, completion"
	const ofJob = "submit, list, status, describe, logs, wait, cancel"
	f("frobnicate", `stctl has no command "frobnicate"; there are: `+all)
	f("chekc", `stctl has no command "chekc"; did you mean check? there are: `+all)
	f("orders.conf", "stctl has no command \"orders.conf\"; to run a job file write `stctl run orders.conf`; there are: "+all)
	f("job frobnicate", `stctl job has no command "frobnicate"; there are: `+ofJob)
	f("job sumbit x.conf", `stctl job has no command "sumbit"; did you mean submit? there are: `+ofJob)
	f("help frobnicate", `stctl has no command "frobnicate"; there are: `+all)
	f("serve cordinator", `stctl serve has no command "cordinator"; did you mean coordinator? there are: coordinator, worker, standalone`)
	f("worker lst", `stctl worker has no command "lst"; did you mean list? there are: list, describe, drain, undrain, fence`)
	f("connector sow", `stctl connector has no command "sow"; did you mean show? there are: list, show`)

	f("run", "the job file is missing; write stctl run FILE")
	f("job submit", "the job file is missing; write stctl job submit FILE")
	f("run a.conf b.conf", "stctl run takes one job file, it got 2: a.conf b.conf")
	f("check a.conf --strict b.conf", "stctl check takes one job file, it got 2: a.conf b.conf")
	f("job list x", "stctl job list takes no arguments, it got: x")
	f("worker list x y", "stctl worker list takes no arguments, it got: x y")
	f("serve worker x", "stctl serve worker takes no arguments, it got: x")
	f("version x", "stctl version takes no arguments, it got: x")
	f("connector show", "connector show takes one name; `stctl connector list` lists them")
	f("connector show Consle", `no plugin "Consle" in this build; did you mean Console?`)
	f("connector show Quux", "no plugin \"Quux\" in this build; `stctl connector list` lists them")
	f("completion zsh", "stctl completion knows bash only; write `stctl completion bash`")

	f("run x.conf -i a", "-i a: write -i KEY=VALUE")
	f("run x.conf -i =a", "-i =a: write -i KEY=VALUE")
	f("check x.conf -i =a", "-i =a: write -i KEY=VALUE")
	f("run x.conf -i", "stctl run: -i needs a value, KEY=VALUE")
	f("job submit x.conf --label a", "--label a: write --label KEY=VALUE")
	f("run x.conf --output xml", "--output xml is not known here; write text or json")
	f("--output xml run x.conf", "--output xml is not known here; write text or json")
	f("plan x.conf -o xml", "--output xml is not known here; write text, json or dot")
	f("run x.conf -o dot", "--output dot is not known here; write text or json")
	f("run x.conf --log-level loud", "--log-level loud is not known; write debug, info, warn or error")
	f("run x.conf --paralelism 2", "stctl run has no flag --paralelism; did you mean --parallelism?")
	f("run x.conf --quux=2", "stctl run has no flag --quux; `stctl run --help` lists its flags")
	f("run x.conf --prefix /x", "stctl run has no flag --prefix; write it before the command: stctl --prefix … run")
	f("job list --log-level debug", "stctl job list has no flag --log-level; write it before the command: stctl --log-level … job list")
	f("run x.conf --parallelism two", "--parallelism two: not a whole number; write for example --parallelism 4")
	f("run x.conf --parallelism 0", "--parallelism 0: write a number from 1 on")
	f("run x.conf --parallelism -3", "--parallelism -3: write a number from 1 on")
	f("run x.conf --parallelism", "stctl run: --parallelism needs a value, N")
	f("job wait x --timeout 5", "--timeout 5: not a duration; write for example --timeout 30s or 5m")
	f("job wait x --timeout -5s", "--timeout -5s: not a duration; write for example --timeout 30s or 5m")
	f("check x.conf --strict=perhaps", "--strict=perhaps: it is a switch; write --strict or --strict=false")
	f("serve coordinator", "--data-dir is missing: the embedded etcd keeps the fleet's state there; or name an etcd with --etcd-endpoints")
	f("serve standalone", "--data-dir is missing: the embedded etcd keeps the fleet's state there; or name an etcd with --etcd-endpoints")
	f("serve coordinator --data-dir d --etcd-listen here", "--etcd-listen here: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host")
	f("serve worker --data-listen 2379", "--data-listen 2379: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host")
	f("serve worker --ops-listen x", "--ops-listen x: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host")
	f("serve coordinator --data-dir d --etcd-listen h:99999", "--etcd-listen h:99999: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host")
	f("serve coordinator --data-dir d --etcd-listen h:1", "--etcd-listen h:1: etcd listens on an address, not on a name; write one of this host, or 0.0.0.0 for all of them")
	f("serve coordinator --data-dir d --strategy sometimes", "--strategy sometimes is not known; write wait or reject")
	f("serve worker --codec lz9", "--codec lz9 is not known; write none, s2 or zstd")
	f("serve worker --ttl 1ms", "--ttl 1ms is too short for calls of up to 30s (--call-limit); write --ttl 2s, or shorten the calls")
	f("serve worker --call-limit 1h", "--ttl 10s is too short for calls of up to 1h0m0s (--call-limit); write --ttl 28s, or shorten the calls")
	f("--etcd-endpoints , worker list", "--etcd-endpoints names none; write HOST:PORT, several with commas between them")
	f("worker list --etcd-endpoints h", "--etcd-endpoints h: write HOST:PORT, several with commas between them")
	f("serve worker --etcd-endpoints h:1,i", "--etcd-endpoints h:1,i: write HOST:PORT, several with commas between them")
	f("serve worker --name W_1", `--name: worker "W_1" is not a valid name; use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit`)
	f("serve coordinator --data-dir d --etcd-listen 127.0.0.1:0 --etcd-endpoints h:1", "--etcd-endpoints and --etcd-listen exclude each other: the etcd is elsewhere or in this process")
	f("serve worker --log-level loud", "--log-level loud is not known; write debug, info, warn or error")
}

func TestVariablesOfTheEnvironment(t *testing.T) {
	roles := func(c *cli.Context) settings.Role {
		switch c.Command.Name {
		case "worker":
			return settings.Worker
		case "run":
			return settings.Run
		}
		return settings.Client
	}
	f := func(flag, value string, args ...string) {
		t.Helper()
		app := newApp(nil, nil)
		var got string
		var read func(all []*cli.Command)
		read = func(all []*cli.Command) {
			for _, c := range all {
				read(c.Subcommands)
				c.ArgsUsage, c.Action = "X", func(cc *cli.Context) error {
					set, err := load(cc, roles(cc))
					if err != nil {
						return err
					}
					got = set.String("etcd.prefix")
					if flag == "etcd-endpoints" {
						got = strings.Join(set.List("etcd.endpoints"), ",")
					}
					return nil
				}
			}
		}
		for _, c := range app.Commands {
			if len(c.Subcommands) > 0 {
				read(c.Subcommands)
			} else {
				read([]*cli.Command{c})
			}
		}
		l, err := take(app, append([]string{"stctl"}, args...))
		if err == nil {
			err = app.Run(l.args)
		}
		if err != nil || got != value {
			t.Errorf("%v: --%s is %q, %v; want %q", args, flag, got, err, value)
		}
	}
	f("prefix", keys.DefaultPrefix, "job", "list")
	f("prefix", "/a/", "--prefix", "/a/", "job", "list")
	f("prefix", "/b/", "job", "list", "--prefix", "/b/")
	f("prefix", "/b/", "--prefix", "/a/", "job", "list", "--prefix", "/b/")
	t.Setenv("STRAIT_PREFIX", "/env/")
	t.Setenv("STRAIT_ETCD_ENDPOINTS", "env:2379")
	f("prefix", "/env/", "job", "list")
	f("prefix", "/env/", "run", "x")
	f("prefix", "/a/", "--prefix", "/a/", "job", "list") // written before the command wins over the environment
	f("prefix", "/b/", "job", "list", "--prefix", "/b/")
	f("etcd-endpoints", "a:1", "--etcd-endpoints", "a:1", "worker", "list")
	f("etcd-endpoints", "env:2379", "serve", "worker")

	for name, want := range map[string]string{
		"STRAIT_SLOTS": "STRAIT_SLOTS=x: not a whole number; write for example STRAIT_SLOTS=4, or dynamic",
		"STRAIT_TTL":   "STRAIT_TTL=x: not a duration; write for example STRAIT_TTL=30s or 5m",
		"STRAIT_CODEC": "STRAIT_CODEC=x is not known; write none, s2 or zstd",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "x")
			if r := stctl(t, "serve", "worker"); r.code != ExitFailed || r.stderr != want+"\n" {
				t.Errorf("exit %d, %q, want %q", r.code, r.stderr, want)
			}
		})
	}
}

func TestPairs(t *testing.T) {
	f := func(want map[string]string, given ...string) {
		t.Helper()
		got, err := pairs("-i", "KEY=VALUE", given, nil)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", given, got, err, want)
		}
	}
	f(map[string]string{})
	f(map[string]string{"a": "b"}, "a=b")
	f(map[string]string{"a": ""}, "a=")
	f(map[string]string{"a": "2"}, "a=1", "a=2")
	f(map[string]string{"a": "1", "b": "2"}, "a=1,b=2")
	f(map[string]string{"a": "1", "b": "2"}, "a=1, b=2")
	f(map[string]string{"a": "1,2"}, "a=1,2")
	f(map[string]string{"a": "1, 2 ,3"}, "a=1, 2 ,3")
	f(map[string]string{"a": "[1,b=2]", "c": "3"}, "a=[1,b=2],c=3")
	f(map[string]string{"a": `"1,b=2"`, "c": "3"}, `a="1,b=2",c=3`)
	f(map[string]string{"a": `5"`, "b": "2"}, `a=5",b=2`)
	f(map[string]string{"q": "select a, b from t where c = 1"}, "q=select a, b from t where c = 1")
	f(map[string]string{"dt": "2024-04-28 00:00:00"}, "dt=2024-04-28 00:00:00")
	f(map[string]string{"pwd": "$a^b%c.d~e0*9("}, "pwd=$a^b%c.d~e0*9(")
	f(map[string]string{"usr": "seatunnel=2.3.1"}, "usr=seatunnel=2.3.1")
}

func TestCheckTakesVariablesWithoutValues(t *testing.T) {
	t.Chdir("testdata/bad")
	r := stctl(t, "check", "-i", "rows", "variable_without_value.conf")
	if r.code != 0 {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	if r := stctl(t, "check", "--strict", "-i", "rows=5", "variable_without_value.conf"); r.code != 0 || r.stderr != "" {
		t.Errorf("with a value: exit %d\n%s", r.code, r.stderr)
	}
}
