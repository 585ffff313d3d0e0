// Package station is simulated equipment: it takes the commands of recipes over MQTT, answers them and sends events, as a
// YAML file says, so that Takt can be shown and tested without a machine. It also reads what a real station has
// (Configuration), for the configuration events that tell Takt.
//
//	{prefix}/equipment/{scope}/commands ──> received ──(takes)──> executed ──> answered ──> response topic
//	                                            │                    └──(after)──> event ──> {prefix}/equipment/{scope}/events
//	            sources (every, ahead) ─────────┴──────────────────────────────> event ──┘
//
// It behaves as good equipment does. A command id is executed once: when it comes again, the same answer goes out again. A
// command is acknowledged to the broker once it stands in the log; the session at the broker lasts, so commands sent
// while the station was away arrive. Answers and events are sent until the broker has acknowledged them. When the station
// dies, a new one with the same log file goes on: it executes what was received, answers what was executed and sends the
// events that are due; it does no work twice. Without a file only Takt's repeats help, and work may be done again.
//
// A command whose causationid names another one ends the work of that one, or has it refused if it comes later.
//
// What it does is decided by pure functions of the file, the command and a seed, so runs repeat: the same order, action
// and attempt meet the same durations, results and failures. The time at which things happen is the machine's.
package station
