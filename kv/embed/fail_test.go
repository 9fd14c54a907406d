package embed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/embed"
)

// other is what the test binary does as another process.
var other = map[string]func(dir string) error{"hold": hold, "fill": fill, "damaged": damaged}

func runOther() (int, bool) {
	name, dir, ok := strings.Cut(os.Getenv("STRAIT_TEST_OTHER"), ":")
	if !ok {
		return 0, false
	}
	if err := other[name](dir); err != nil {
		fmt.Println(err)
		return 1, true
	}
	return 0, true
}

func otherProcess(name, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STRAIT_TEST_OTHER="+name+":"+dir)
	return cmd
}

// hold runs a server until it is killed.
func hold(dir string) error {
	if _, err := embed.Start(context.Background(), embed.Config{DataDir: dir}); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// fill writes until files may not grow, which etcd meets as it meets a full disk.
func fill(dir string) error {
	srv, err := embed.Start(context.Background(), embed.Config{DataDir: dir})
	if err != nil {
		return err
	}
	s, err := kv.Open(context.Background(), kv.Config{Client: srv.Client(), CallTimeout: time.Second})
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 300 << 10, Max: 300 << 10}); err != nil {
		return err
	}
	for err == nil {
		err = put(s, "/a", strings.Repeat("x", 60<<10))
	}
	fmt.Println("write:", err)
	select {
	case <-srv.Done():
	case <-time.After(limit):
		return errors.New("the owner is not told")
	}
	fmt.Println("told:", srv.Err())
	_ = s.Close()
	srv.Close()
	if !errors.Is(srv.Err(), embed.ErrFailed) || !errors.Is(srv.Err(), syscall.EFBIG) {
		return fmt.Errorf("unexpected: %w", srv.Err())
	}
	return nil
}

// damaged starts on a directory that cannot be read.
func damaged(dir string) error {
	_, err := embed.Start(context.Background(), embed.Config{DataDir: dir})
	if !errors.Is(err, embed.ErrFailed) {
		return fmt.Errorf("started or died: %w", err)
	}
	fmt.Println("told:", err)
	return nil
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	out, err := otherProcess("fill", dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "told: embed: etcd failed in "+dir) || !strings.Contains(string(out), "free space") {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	srv := start(t, embed.Config{DataDir: dir}) // what was acknowledged is there
	s := open(t, kv.Config{Client: srv.Client()})
	if e, err := s.Get(context.Background(), "/a"); err != nil || !e.Exists() {
		t.Fatalf("%+v, %v", e, err)
	}
}

func TestDamaged(t *testing.T) {
	f := func(name, glob string, harm func(file string) error) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			srv := start(t, embed.Config{DataDir: dir, NoFsync: true})
			s := open(t, kv.Config{Client: srv.Client()})
			if err := put(s, "/a", strings.Repeat("x", 1000)); err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			srv.Close()
			files, _ := filepath.Glob(filepath.Join(dir, glob))
			if len(files) == 0 {
				t.Fatal("nothing to harm")
			}
			if err := harm(files[0]); err != nil {
				t.Fatal(err)
			}
			out, err := otherProcess("damaged", dir).CombinedOutput()
			if err != nil || !strings.Contains(string(out), dir) || !strings.Contains(string(out), "backup") {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
	overwrite := func(file string) error {
		fh, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer fh.Close()
		_, err = fh.WriteAt([]byte(strings.Repeat("garbage!", 4096)), 0)
		return err
	}
	f("db", "member/snap/db", overwrite)
	f("wal", "member/wal/*-0000000000000000.wal", overwrite)
}
