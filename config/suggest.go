package config

import "slices"

// nearest returns the candidate that is most like name, or "" if none is close enough to be what was meant. Names
// are compared by the number of letters to change (Levenshtein), which may be a third of the name at most.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// didYouMean returns the second half of an "unknown" message.
func didYouMean(name string, candidates []string, otherwise string) string {
	sorted := slices.Sorted(slices.Values(candidates))
	if n := nearest(name, sorted); n != "" {
		return "unknown; did you mean " + n + "?"
	}
	return "unknown; " + otherwise
}
