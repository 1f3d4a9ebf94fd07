package publication

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKeepsStaleEntries(t *testing.T) {
	for version, want := range map[string]bool{
		"14.17": true, "14.18": false, "15.12 (Debian 15.12-0+deb12u1)": true, "15.13 (Debian 15.13-0+deb12u1)": false,
		"16.8": true, "16.9": false, "17beta1": true, "17.4": true, "17.5": false, "17.10": false, "18beta1": false, "18.0": false,
		"19devel": false, "": true, "12.3": true,
	} {
		assert.Equal(t, want, keepsStaleEntries(version), version)
	}
}
