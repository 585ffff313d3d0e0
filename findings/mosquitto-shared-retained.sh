#!/bin/sh
# mosquitto 2.0.11 (Debian 12) sends retained messages to a new shared subscription.
#
# MQTT 5, 4.8.2: no retained messages are sent when a session first subscribes to a shared subscription. A consumer that joins a share group therefore counts on live
# messages only. mosquitto 2.0.11 sends what is retained; an old message then looks like work that has just come in. A subscription with Retain Handling 2 is spared.
# mosquitto 2.0.21 and 2.1.2 keep to the standard.
#
# Seen with mosquitto and mosquitto-clients 2.0.11-1.2+deb12u2:
#   shared subscription: retained=1 an hour old
# Needs apt-get and dpkg-deb; installs nothing. Exit status 0: as seen. 1: the behavior has changed.
set -eu
version=2.0.11-1.2+deb12u2
dir=$(mktemp -d)
broker=
trap 'if [ -n "$broker" ]; then kill "$broker"; fi; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -q mosquitto=$version mosquitto-clients=$version libmosquitto1=$version libcjson1 libdlt2 libwebsockets17 libev4 libuv1 >/dev/null 2>&1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
LD_LIBRARY_PATH=$dir/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
PATH=$dir/root/usr/sbin:$dir/root/usr/bin:$PATH
export LD_LIBRARY_PATH PATH
port=21883
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' $port >conf
mosquitto -c conf 2>log &
broker=$!
tries=0
until mosquitto_pub -V 5 -p $port -q 1 -r -t plant/cell/events -m 'an hour old' 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 50 ] || { cat log; exit 2; }
	sleep 0.1
done
got=$(mosquitto_sub -V 5 -p $port -q 1 -t '$share/g/plant/+/events' -F 'retained=%r %p' -W 2 2>/dev/null || true)
echo "shared subscription: ${got:-(nothing)}"
[ "$got" = 'retained=1 an hour old' ]
