-- pause.lua: pause or resume an instance or a queue.
-- KEYS[1] run:{id}, or the set of paused queues   ARGV[2] instance | queue   ARGV[3] pause | resume | finish: what was begun with a queue   ARGV[4] id, or name of the queue   ARGV[5] most entries to move
-- Reply: {"ok"} | {"none"}: no such instance is active | {"more"}: call again, entries are left to be moved
local name = ARGV[4]
if ARGV[2] == 'instance' then
  if call('EXISTS', KEYS[1]) == 0 then return {'none'} end
  if ARGV[3] == 'pause' then call('HSET', KEYS[1], 'p', '1') return {'ok'} end
  call('HDEL', KEYS[1], 'p')
  if call('EXISTS', B .. 'in:' .. name) == 1 then wake(name) end
  return {'ok'}
end
local most, moved = tonumber(ARGV[5]), 0
local pause = ARGV[3] == 'pause'
if ARGV[3] == 'finish' then pause = call('SISMEMBER', KEYS[1], name) == 1
elseif pause then call('SADD', KEYS[1], name) else call('SREM', KEYS[1], name) end
for _, kind in ipairs({'tasks', 'activities'}) do
  local queue, held = B .. kind .. ':' .. name, B .. 'held:' .. kind .. ':' .. name
  local from = pause and queue or held
  if call('EXISTS', from) == 1 then
    -- Entries that a worker has stay with it.
    local after = '-'
    if from == queue then
      local ok, groups = pcall(call, 'XINFO', 'GROUPS', queue)
      for _, g in ipairs(ok and groups or {}) do
        for i = 1, #g, 2 do if g[i] == 'last-delivered-id' then after = '(' .. g[i + 1] end end
      end
    end
    local page = moved < most and call('XRANGE', from, after, '+', 'COUNT', most - moved) or {} -- COUNT 0 replies nil
    for _, m in ipairs(page) do
      local run, before = B .. 'run:' .. m[2][2], from == held and 'h' .. m[1] or m[1]
      local field, of = 'e', ''
      if kind == 'activities' then field, of = 'a:' .. (m[2][6] or ''), ' ' .. name end
      if call('HGET', run, field) == before .. of then call('HSET', run, field, push(kind, name, unpack(m[2])) .. of) end
      call('XDEL', from, m[1])
      moved = moved + 1
    end
    if from == held and call('XLEN', held) == 0 then call('DEL', held) end
  end
end
return {moved >= most and 'more' or 'ok'}
