-- common.lua: what the scripts of workflow share. It stands before each of them, and behind it stands what only some need (scripts.go): to make a function costs as much as to use it.
-- ARGV[1] is what all keys of the shard begin with. Keys of other instances and of queues follow from what is stored and are not in KEYS: all
-- of a shard have one hash tag (ADR 0013).
--
-- run:{id} is a hash, there while an execution is active: x execution, q queue, e entry of its workflow task ("" = none is queued or running,
-- h before the id = held by a paused queue), p = paused, g = waits at a gate, w who awaits its end, t:{ref} a timer's event, a:{ref} queue and entry of an activity.
local B = ARGV[1]
local call = redis.call
local GROUP = 'workers'

local function clock() local t = call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end

-- push appends an entry to a queue, or to what is held for it while it is paused, and returns where it is.
local function push(kind, queue, ...)
  if call('SISMEMBER', B .. 'paused', queue) == 1 then
    return 'h' .. call('XADD', B .. 'held:' .. kind .. ':' .. queue, '*', ...)
  end
  return call('XADD', B .. kind .. ':' .. queue, '*', ...)
end

-- try is push, or nothing if somebody made the queue a key of another type: what it is of must not be lost for that, and mend.lua puts it right once the queue is one again.
local function try(...)
  local ok, entry = pcall(push, ...)
  return ok and entry or nil
end

-- pull takes an entry out of a queue again, wherever it is.
local function pull(kind, queue, entry)
  if string.sub(entry, 1, 1) == 'h' then
    call('XDEL', B .. 'held:' .. kind .. ':' .. queue, string.sub(entry, 2))
    return
  end
  local stream = B .. kind .. ':' .. queue
  pcall(call, 'XACK', stream, GROUP, entry)
  call('XDEL', stream, entry)
end

-- rouse queues an instance that has events, unless its task is there already, or it must not run: what HMGET says of its q, e, p and g. begun is how often this task was begun
-- before, nil = never.
local function rouse(id, queue, entry, paused, gate, begun)
  if not queue or entry and entry ~= '' or paused or gate then return end
  if begun then entry = try('tasks', queue, 'i', id, 'n', begun) else entry = try('tasks', queue, 'i', id) end
  if entry then call('HSET', B .. 'run:' .. id, 'e', entry) end
end

local function wake(id, begun)
  local r = call('HMGET', B .. 'run:' .. id, 'q', 'e', 'p', 'g')
  rouse(id, r[1], r[2], r[3], r[4], begun)
end

-- give puts an event into the inbox of an execution, x = '' for whichever is active. carry = '1' lets it outlive a continuation.
-- Returns ok, or gone: it has ended, or later: it was never heard of, and may start yet.
local function give(id, x, event, carry)
  local r = call('HMGET', B .. 'run:' .. id, 'x', 'q', 'e', 'p', 'g')
  local active = r[1]
  if not active or x ~= '' and x ~= active then
    if x == '' or call('EXISTS', B .. 'doc:' .. id .. ':' .. x) == 1 then return 'gone' end
    return 'later'
  end
  if carry == '1' then
    call('XADD', B .. 'in:' .. id, '*', 'e', event, 'c', '1')
  else
    call('XADD', B .. 'in:' .. id, '*', 'e', event)
  end
  rouse(id, r[2], r[3], r[4], r[5])
  return 'ok'
end
