//go:build !race

package testenv

// RaceDetector says whether the test binary has the race detector, with which neither memory nor speed is measured.
const RaceDetector = false
