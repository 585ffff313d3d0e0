// Package testenv gives tests real servers and bad networks.
//
//	srv := testenv.Redis(t)                 // a redis-server of this test's own, gone when the test ends
//	keys := srv.Prefix(t)                   // keys written elsewhere fail the test
//	broker := testenv.Mosquitto(t)
//	proxy := testenv.CountingProxy(t, srv.Addr)
//	zoo := testenv.ZooKeeper(t)             // or SharedZooKeeper(t), as it starts slowly
//	path := zoo.Path(t)
//
// Every server belongs to one test, so a test may kill it, restart it, flush it or change its clock's view of the world;
// starting one takes about 20 ms, and a second or two for ZooKeeper, which tests may therefore share. A missing program fails the test and names the package to install. No test ever touches a server it did not start.
package testenv
