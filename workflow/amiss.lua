-- amiss.lua: what scripts that go over many instances put between common.lua and themselves.
-- amiss is a key of another type that somebody put where an instance's task needs one of ours, nil = there is none. Scripts that go over many instances ask before they write: one that fails keeps
-- its writes, and would stop at the same instance again.
local sound = {}
local function foreign(key, ...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' then return false end -- these commands reply a number, or an error
  if not string.find(r.err, 'WRONGTYPE', 1, true) then error(r) end
  return key
end
local function amiss(id)
  local run, inbox = B .. 'run:' .. id, B .. 'in:' .. id
  local bad = foreign(run, 'HLEN', run) or foreign(inbox, 'XLEN', inbox)
  if bad then return bad end
  local queue = call('HGET', run, 'q')
  if not queue then return nil end
  if sound[queue] == nil then
    local key, held, paused = B .. 'tasks:' .. queue, B .. 'held:tasks:' .. queue, B .. 'paused'
    sound[queue] = foreign(key, 'XLEN', key) or foreign(held, 'XLEN', held) or foreign(paused, 'SISMEMBER', paused, queue)
  end
  return sound[queue] or nil
end
