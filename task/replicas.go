package task

import "github.com/taktworks/takt/internal/redis"

// ReplicasError says that a submission was written, and that fewer replicas than Options.Replicas have acknowledged it: a failover now may lose it. Submit it
// again under the same Key, ID or GroupID, which changes nothing but waits once more. Without such a name a repetition is another task. Acknowledged and Want
// are numbers of replicas, Within is how long was waited; Err is why nothing is known of replicas, nil if the time was over.
type ReplicasError = redis.ReplicasError
