-- release.lua: hand a task back to its queue, not done.
-- KEYS[1] heartbeat of the worker   KEYS[2] run:{id}
-- ARGV[2] token   ARGV[3] entry   ARGV[4] id   ARGV[5] execution, "" = whichever is active   ARGV[6] queue   ARGV[7] ref of an activity, "" = a workflow task
-- ARGV[8] 1 = pause the instance   ARGV[9] how often the task was begun, which its new entry keeps as field n
-- Reply: {"ok"} | {"lost"}: not this worker's
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local kind, field = 'tasks', 'e'
if ARGV[7] ~= '' then kind, field = 'activities', 'a:' .. ARGV[7] end
local r = call('HMGET', KEYS[2], 'x', field)
local have = ARGV[7] ~= '' and ARGV[3] .. ' ' .. ARGV[6] or ARGV[3]
if ARGV[5] ~= '' and r[1] ~= ARGV[5] or r[2] ~= have then
  pull(kind, ARGV[6], ARGV[3])
  return {'lost'}
end
if kind == 'tasks' then
  call('HSET', KEYS[2], 'e', '')
  if ARGV[8] == '1' then call('HSET', KEYS[2], 'p', '1') end
  wake(ARGV[4], ARGV[9] ~= '0' and ARGV[9] or nil)
else
  local m = call('XRANGE', B .. 'activities:' .. ARGV[6], ARGV[3], ARGV[3])[1]
  if m then
    local fields = {unpack(m[2], 1, 8)} -- without n
    if ARGV[9] ~= '0' then fields[9], fields[10] = 'n', ARGV[9] end
    call('HSET', KEYS[2], field, push('activities', ARGV[6], unpack(fields)) .. ' ' .. ARGV[6])
  end
end
pull(kind, ARGV[6], ARGV[3])
return {'ok'}
