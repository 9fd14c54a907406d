package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestMark(t *testing.T) {
	l := open(t)
	if _, err := ReadMark(l.Dir()); !errors.Is(err, ErrMissing) {
		t.Errorf("a folder without a mark: %v", err)
	}
	if _, err := ReadMark(filepath.Join(l.Dir(), "nowhere")); !errors.Is(err, ErrMissing) {
		t.Errorf("no folder: %v", err)
	}
	marks := make([]string, 8)
	var g sync.WaitGroup
	for i := range marks { // several processes at once
		g.Go(func() {
			again, err := Open(l.Dir())
			if err == nil {
				marks[i], err = again.Mark()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	for _, m := range marks {
		if m != marks[0] || len(m) != 32 {
			t.Errorf("marks of one folder: %q", marks)
		}
	}
	if m, err := ReadMark(l.Dir()); err != nil || m != marks[0] {
		t.Error(m, err)
	}
	if other, err := open(t).Mark(); err != nil || other == marks[0] {
		t.Error("two folders have one mark:", err)
	}
	if found, err := l.List(context.Background(), ""); err != nil || len(found) != 0 {
		t.Errorf("the mark is listed: %v, %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(l.Dir(), markName), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Mark(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged mark: %v", err)
	}
}
