package task

import (
	"time"

	"github.com/taktworks/takt/internal/redis"
)

const defaultReplicasWithin = time.Second

// ReplicasError says that a submission was written, and that fewer replicas than Options.Replicas have acknowledged it: a failover now may lose it. Submit it
// again under the same Key, ID or GroupID, which changes nothing but waits once more. Without such a name a repetition is another task.
type ReplicasError struct {
	Acknowledged, Want int
	Within             time.Duration // how long was waited
	Err                error         // why nothing is known of replicas, nil if the time was over
}

func (e *ReplicasError) Error() string {
	return (*redis.Shortage)(e).Text("task: submitted")
}

func (e *ReplicasError) Unwrap() error { return e.Err }
