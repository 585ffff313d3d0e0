package processor

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// FromEnvironment is what the variables TAKT_* say about store and broker: those of the flags of the command takt that have the same names, such as TAKT_REDIS, TAKT_REDIS_CA,
// TAKT_MQTT, TAKT_MQTT_USERNAME, TAKT_PREFIX and TAKT_TOPIC_PREFIX. The instance is TAKT_INSTANCE, or the name of the host. Open the store, then set Options.Store to it.
// The error says which of TAKT_REDIS and TAKT_MQTT is missing.
func FromEnvironment(name string) (jobstore.Options, Options, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	get := os.Getenv
	store := jobstore.Options{
		URL: get("TAKT_REDIS"), Username: get("TAKT_REDIS_USERNAME"), Password: get("TAKT_REDIS_PASSWORD"),
		CAFile: get("TAKT_REDIS_CA"), CertFile: get("TAKT_REDIS_CERT"), KeyFile: get("TAKT_REDIS_KEY"), ServerName: get("TAKT_REDIS_SERVER_NAME"),
		SentinelUsername: get("TAKT_REDIS_SENTINEL_USERNAME"), SentinelPassword: get("TAKT_REDIS_SENTINEL_PASSWORD"),
		Embedded: get("TAKT_REDIS_EMBEDDED") != "", Prefix: get("TAKT_PREFIX"), Instance: cmp.Or(get("TAKT_INSTANCE"), strings.ReplaceAll(host, "/", "-")),
	}
	o := Options{Name: name, TopicPrefix: cmp.Or(get("TAKT_TOPIC_PREFIX"), "takt"), MQTT: mqtt.Options{
		URL: get("TAKT_MQTT"), Username: get("TAKT_MQTT_USERNAME"), Password: get("TAKT_MQTT_PASSWORD"),
		CAFile: get("TAKT_MQTT_CA"), CertFile: get("TAKT_MQTT_CERT"), KeyFile: get("TAKT_MQTT_KEY"),
	}}
	o.MQTT.ShownTopic = topics.Prefix(o.TopicPrefix).Shown
	switch {
	case store.URL == "":
		err = errors.New("processor: TAKT_REDIS is empty: name your Redis, such as redis://127.0.0.1:6379, or run the program by takt dev --exec")
	case o.MQTT.URL == "":
		err = errors.New("processor: TAKT_MQTT is empty: name your broker, such as mqtt://127.0.0.1:1883, or run the program by takt dev --exec")
	default:
		err = nil
	}
	return store, o, err
}
