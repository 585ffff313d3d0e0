-- stats.lua: count what there is on a shard, and change nothing.
-- KEYS[1] active, which says where the other keys are: they follow from the prefix
-- Reply: {active, ended, timers, messages in the outbox, {{counter, value}...}, {{kind:queue, entries, entries held back}...}}
local counters, queues = {}, {}
local all = call('HGETALL', B .. 'counters')
for i = 1, #all, 2 do counters[#counters + 1] = {all[i], all[i + 1]} end
for _, q in ipairs(call('SMEMBERS', B .. 'queues')) do queues[#queues + 1] = {q, call('XLEN', B .. q), call('XLEN', B .. 'held:' .. q)} end
return {call('ZCARD', B .. 'active'), call('ZCARD', B .. 'ended'), call('ZCARD', B .. 'timers'), call('XLEN', B .. 'out'), counters, queues}
