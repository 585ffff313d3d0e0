-- begin.lua: load what a workflow task needs that was read from its queue.
-- KEYS[1] heartbeat of the worker   KEYS[2] queue   KEYS[3] run:{id}
-- ARGV[2] token   ARGV[3] name of the queue   ARGV[4] entry   ARGV[5] id   ARGV[6] consumer   ARGV[7...] queues to fetch from: see fetch
-- Reply: {"ok", {document, cursor, event...}, tasks fetched...} | {"none", {}, tasks fetched...}: nothing to be done, the entry is settled
-- | {"lost"}: not this worker's
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local task = begin(ARGV[3], ARGV[4], ARGV[5])
return {task and 'ok' or 'none', task or {}, unpack(fetch(7, ARGV[6]))}
