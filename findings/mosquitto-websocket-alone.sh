#!/bin/sh
# mosquitto 2.0.11 (Debian 12) does not start if WebSocket is its only listener.
#
# A configuration with one listener, and "protocol websockets" for it, is valid: mosquitto.conf(5) asks for no other listener. The broker opens the WebSocket port, then ends with
# "Unable to start any listening sockets", because it counts its plain listeners only. With a second listener for plain MQTT both work.
#
# Seen with mosquitto 2.0.11-1.2+deb12u2:
#   WebSocket alone:           ends with status 1
#   WebSocket and plain MQTT:  runs
# Needs apt-get and dpkg-deb; installs nothing. Exit status 0: as seen. 1: the behavior has changed.
set -eu
version=2.0.11-1.2+deb12u2
dir=$(mktemp -d)
broker=
trap 'if [ -n "$broker" ]; then kill "$broker" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -q mosquitto=$version libcjson1 libdlt2 libwebsockets17 libev4 libuv1 >/dev/null 2>&1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
LD_LIBRARY_PATH=$dir/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
export LD_LIBRARY_PATH
printf 'allow_anonymous true\nlistener 21884 127.0.0.1\nprotocol websockets\n' >alone
{ cat alone; printf 'listener 21885 127.0.0.1\n'; } >both

status() { # configuration: how the broker is two seconds later
	root/usr/sbin/mosquitto -c "$1" 2>"$1.log" &
	broker=$!
	sleep 2
	if kill -0 "$broker" 2>/dev/null; then
		kill "$broker"
		wait "$broker" || true
		echo runs
	else
		code=0
		wait "$broker" || code=$?
		echo "ends with status $code"
	fi
	broker=
}
status alone >alone.out
status both >both.out
alone=$(cat alone.out) both=$(cat both.out)
echo "WebSocket alone:           $alone"
echo "WebSocket and plain MQTT:  $both"
[ "$alone" = 'ends with status 1' ] && [ "$both" = runs ] && grep -q 'Unable to start any listening sockets' alone.log
