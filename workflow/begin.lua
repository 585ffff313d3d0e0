-- begin.lua: load what a workflow task needs that was read from its queue.
-- KEYS[1] heartbeat of the worker   KEYS[2] queue   KEYS[3] run:{id}
-- ARGV[2] token   ARGV[3] name of the queue   ARGV[4] entry   ARGV[5] id
-- Reply: {"ok", document, cursor, event...} | {"none"}: nothing to be done, the entry is settled | {"lost"}: not this worker's
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local task = begin(ARGV[3], ARGV[4], ARGV[5])
if not task then return {'none'} end
return {'ok', unpack(task)}
