package client

import (
	"crypto/rand"
	"errors"
	"maps"

	"strait/kv/record"
	"strait/plan/seal"
)

// seal puts the secrets of a spec under the fleet's key.
func (c *Client) seal(spec *record.Spec) error {
	s := c.secrets
	if spec.TextChunks != nil {
		return errors.New("a spec is submitted with its text, not with chunks of it: its secrets are sealed first")
	}
	out, warnings, err := seal.Text(seal.Job{File: spec.File, Text: spec.Text, Variables: spec.Variables, Environment: spec.Environment},
		s.Catalog, s.Keys, rand.Reader)
	for _, m := range warnings {
		if s.Warn != nil {
			s.Warn(m)
		}
	}
	if err != nil {
		if s.AllowPlain && s.Keys.Empty() {
			spec.PlainSecrets = true
			return nil
		}
		return err
	}
	spec.Text = out.Text
	spec.Variables, spec.Environment = orNil(out.Variables), orNil(out.Environment)
	return nil
}

func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
