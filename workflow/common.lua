-- common.lua: what the scripts of workflow share. It stands before each of them.
-- ARGV[1] is what all keys of the shard begin with. Keys of other instances and of queues follow from what is stored and are not in KEYS: all
-- of a shard have one hash tag (ADR 0013).
--
-- run:{id} is a hash, there while an execution is active: x execution, q queue, e entry of its workflow task ("" = none is queued or running,
-- h before the id = held by a paused queue), p = paused, g = waits at a gate, w who awaits its end, t:{ref} a timer's event, a:{ref} queue and entry of an activity.
local B = ARGV[1]
local call = redis.call
local GROUP = 'workers'

-- denied is an error if the user lacks one of the commands that a script writes with, to be returned before anything is written: a script that fails keeps its writes.
-- names are those that it may need on its way, nil = all that any needs. A check costs as much as a command does, so those that are on every way name theirs.
local function denied(names)
  local allows, key = redis.acl_check_cmd, B .. 'x'
  if not allows then return nil end
  names = names or {'SET', 'RPUSH', 'DEL', 'XADD', 'XDEL', 'XACK', 'SADD', 'HSET', 'HSETNX', 'HDEL', 'ZADD', 'ZREM', 'HINCRBY', 'PEXPIRE', 'PEXPIREAT', 'PUBLISH'}
  for _, name in ipairs(names) do
    if not allows(name, key, '1', '1') then return redis.error_reply('NOPERM this user may not run ' .. name .. ', nothing was done') end
  end
end

local function clock() local t = call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end

-- again has schedules looked at now whose next slot was told by a clock that was ahead: some may be due long before. Those without a slot have the last score of all (never, in Go).
local function again(now)
  local schedules = B .. 'schedules'
  if call('TYPE', schedules).ok ~= 'zset' then return end
  for _, name in ipairs(call('ZRANGE', schedules, '(' .. now, '(253402300799000', 'BYSCORE')) do call('ZADD', schedules, now, name) end
end

-- tick is clock for those who set or fire timers, or start what is scheduled. If it was set back since they last looked, timers are brought forward by as much, so that nobody waits for it to come
-- there again. One that is ahead makes timers early: it cannot be told from workers that were away.
local function tick()
  local now, key, timers = clock(), B .. 'clock', B .. 'timers'
  local before = tonumber(redis.pcall('GET', key) or '0') or 0 -- what somebody else put there is written over
  if now < before - 1000 then
    local all = call('ZRANGE', timers, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do call('ZADD', timers, tonumber(all[i + 1]) - (before - now), all[i]) end
    again(now)
  end
  if math.abs(now - before) >= 1000 then pcall(call, 'SET', key, now) end
  return now
end

-- push appends an entry to a queue, or to what is held for it while it is paused, and returns where it is.
local function push(kind, queue, ...)
  if call('SISMEMBER', B .. 'paused', queue) == 1 then
    return 'h' .. call('XADD', B .. 'held:' .. kind .. ':' .. queue, '*', ...)
  end
  return call('XADD', B .. kind .. ':' .. queue, '*', ...)
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
  if queue and (not entry or entry == '') and not paused and not gate then
    call('HSET', B .. 'run:' .. id, 'e', begun and push('tasks', queue, 'i', id, 'n', begun) or push('tasks', queue, 'i', id))
  end
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

-- seen says whether an id was noted, and is still to be remembered.
local function seen(id)
  local known = call('ZSCORE', B .. 'seen', id)
  return known and tonumber(known) > clock()
end

-- note remembers an id for some ms, and forgets some whose time is over.
local function note(id, ms)
  local now = clock()
  for _, old in ipairs(call('ZRANGE', B .. 'seen', '-inf', now, 'BYSCORE', 'LIMIT', 0, 10)) do call('ZREM', B .. 'seen', old) end
  call('ZADD', B .. 'seen', now + ms, id)
end

-- tell says to those who watch what became of an execution. While nobody does it costs an EXISTS.
local function tell(what, doc)
  if call('EXISTS', B .. 'watched') == 1 then call('PUBLISH', B .. 'watch', what .. '\n' .. doc) end
end

local act

-- send does something to what belongs to a shard: at once if it is this one (''), else by its outbox.
local function send(shard, ...)
  if shard == '' then return act(...) end
  local fields = {}
  for i, v in ipairs({...}) do fields[2 * i - 1], fields[2 * i] = i, v end
  call('XADD', B .. 'out', '*', 's', shard, unpack(fields))
  return 'ok'
end

-- heir is what an execution that continues as new leaves to the next one, in the same script: id, execution, paused, gate; passed = its place at the gate was taken.
local heir

-- start makes an execution active. Returns ok, same: it is there already, or exists: another is active.
local function start(id, x, doc, queue, created, event, name, gate, max, gateShard, homeShard)
  local run, member = B .. 'run:' .. id, id .. ':' .. x
  local document = B .. 'doc:' .. member
  local active = call('HGET', run, 'x')
  if active then return (active == x or call('EXISTS', document) == 1) and 'same' or 'exists' end
  if not call('SET', document, doc, 'NX') then return 'same' end
  local before = heir and heir.id == id and heir
  local paused = before and before.paused
  call('SET', B .. 'last:' .. id, x)
  if call('ZADD', B .. 'created', created, member) == 0 then call('ZREM', B .. 'ended', member) end -- it was there before, and is forgotten
  call('ZADD', B .. 'active', created, member)
  call('SADD', B .. 'queues', 'tasks:' .. queue)
  call('HINCRBY', B .. 'counters', 'started', 1)
  local inbox, early = B .. 'in:' .. id, B .. 'early:' .. member
  if call('EXISTS', inbox, early, B .. 'watched') == 0 then -- nearly always
    call('XADD', inbox, '*', 'e', event)
  else
    tell('started', doc)
    local carried = call('XRANGE', inbox, '-', '+')
    if #carried > 0 then call('DEL', inbox) end
    call('XADD', inbox, '*', 'e', event)
    for _, c in ipairs(carried) do call('XADD', inbox, '*', unpack(c[2])) end
    for _, e in ipairs(call('LRANGE', early, 0, -1)) do call('XADD', inbox, '*', 'e', e) end
    call('DEL', early)
  end
  call('HSET', run, 'x', x, 'q', queue, 'e', gate == '' and not paused and push('tasks', queue, 'i', id) or '')
  if paused then call('HSET', run, 'p', '1') end
  if gate ~= '' then
    call('HSET', run, 'g', gate)
    if before and before.gate == gate then
      before.passed = true
      send(gateShard, 'pass', gate, max, homeShard, id, x, before.x)
    else
      send(gateShard, 'acquire', gate, max, homeShard, id, x)
    end
  end
  return 'ok'
end

-- open lets those who wait at a gate in, as many as may be.
local function open(gate)
  local key = B .. 'gate:' .. gate
  local max = tonumber(call('HGET', B .. 'gates', gate) or '0')
  while call('ZCOUNT', key, 0, 0) < max do
    local next = call('ZRANGE', key, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
    if not next then break end
    call('ZADD', key, 0, next)
    local shard, x, id = string.match(next, '^([^:]*):([^:]*):(.*)$')
    send(shard, 'enter', id, x, gate)
  end
  if call('EXISTS', key) == 0 then call('HDEL', B .. 'gates', gate) end
end

act = function(kind, ...)
  local a = {...}
  if kind == 'event' then -- id, execution, event, carry, ms for which it waits for an execution that nobody has heard of yet, nil = it does not
    local r = give(a[1], a[2], a[3], a[4])
    if r == 'later' and a[5] then
      local early = B .. 'early:' .. a[1] .. ':' .. a[2]
      call('RPUSH', early, a[3])
      call('PEXPIRE', early, a[5])
      return 'ok'
    end
    return r
  elseif kind == 'start' then -- what start takes; then shard, id, execution and event of who is told if it is not
    local r = start(a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])
    if r == 'exists' and a[15] ~= '' then send(a[12], 'event', a[13], a[14], a[15], '0') end
    return r
  elseif kind == 'either' then -- event, then what start takes
    if give(a[2], '', a[1], '1') == 'ok' then return 'ok' end
    local r = start(a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])
    if r ~= 'ok' then return 'gone' end
    call('XADD', B .. 'in:' .. a[2], '*', 'e', a[1], 'c', '1')
    return 'started'
  elseif kind == 'acquire' then -- gate, max, shard, id, execution
    local member = a[3] .. ':' .. a[5] .. ':' .. a[4]
    local score = call('ZSCORE', B .. 'gate:' .. a[1], member)
    if score and tonumber(score) == 0 then
      send(a[3], 'enter', a[4], a[5], a[1])
      return 'ok'
    end
    call('HSET', B .. 'gates', a[1], a[2])
    if not score then -- behind those who came before, in this script too, and whatever the clock did
      local t, last = call('TIME'), call('ZRANGE', B .. 'gate:' .. a[1], -1, -1, 'WITHSCORES')[2]
      call('ZADD', B .. 'gate:' .. a[1], math.max(t[1] * 1000000 + t[2], (tonumber(last) or 0) + 1), member)
    end
    open(a[1])
    return 'ok'
  elseif kind == 'pass' then -- gate, max, shard, id, execution, execution whose place it takes
    call('HSET', B .. 'gates', a[1], a[2])
    call('ZREM', B .. 'gate:' .. a[1], a[3] .. ':' .. a[6] .. ':' .. a[4])
    call('ZADD', B .. 'gate:' .. a[1], 0, a[3] .. ':' .. a[5] .. ':' .. a[4])
    send(a[3], 'enter', a[4], a[5], a[1])
    open(a[1]) -- max may be more than before
    return 'ok'
  elseif kind == 'release' then -- gate, shard, id, execution
    call('ZREM', B .. 'gate:' .. a[1], a[2] .. ':' .. a[4] .. ':' .. a[3])
    open(a[1])
    return 'ok'
  elseif kind == 'enter' then -- id, execution, gate; from another shard: that, and this one as it is called there
    local run = B .. 'run:' .. a[1]
    if call('HGET', run, 'x') ~= a[2] then
      -- It has ended. Its release may have come to the gate before it came there itself, so the place is given back.
      send(a[4] or '', 'release', a[3], a[5] or '', a[1], a[2])
    elseif call('HDEL', run, 'g') == 1 then
      wake(a[1])
    end
    return 'ok'
  end
  return 'unknown'
end

-- finish ends the active execution: nothing of it runs or fires any more. What is left in its inbox stays only if it is carried over to the next one, which start must make
-- in the same script. empty: there is no inbox.
local function finish(id, x, doc, last, state, outcome, ended, expires, remove, gate, empty)
  local run = B .. 'run:' .. id
  local all = call('HGETALL', run)
  local awaited
  for i = 1, #all, 2 do
    local k, v = all[i], all[i + 1]
    local kind = string.sub(k, 1, 2)
    if k == 'w' then awaited = v
    elseif kind == 't:' then call('ZREM', B .. 'timers', string.sub(k, 3) .. ':' .. x .. ':' .. id)
    elseif kind == 'a:' then
      local entry, queue = string.match(v, '^([^ ]*) (.*)$')
      pull('activities', queue, entry)
    end
  end
  if state == 'continued_as_new' then heir = {id = id, x = x, paused = call('HEXISTS', run, 'p') == 1, gate = gate} end
  call('DEL', run)
  local member = id .. ':' .. x
  local history = B .. 'his:' .. member
  call('ZREM', B .. 'active', member)
  if remove then
    call('DEL', B .. 'doc:' .. member, history, B .. 'last:' .. id)
    call('ZREM', B .. 'created', member)
  else
    call('ZADD', B .. 'ended', ended, member)
    if expires then -- all at once; the document has its time already
      call('PEXPIREAT', history, expires)
      call('PEXPIREAT', B .. 'last:' .. id, expires)
    end
  end
  local inbox = B .. 'in:' .. id
  if not empty and call('EXISTS', inbox) == 1 then
    if state ~= 'continued_as_new' then call('DEL', inbox) else
      for _, m in ipairs(call('XRANGE', inbox, '-', '+')) do
        if not m[2][3] then call('XDEL', inbox, m[1]) end
      end
      if call('XLEN', inbox) == 0 then call('DEL', inbox) end
    end
  end
  call('HINCRBY', B .. 'counters', outcome ~= '' and outcome or state, 1)
  tell('ended', doc)
  if awaited then
    for who in string.gmatch(awaited, '[^,]+') do call('PUBLISH', B .. 'await:' .. who, member .. '\n' .. doc .. '\n' .. last) end
  end
end

-- upcoming reads the events of an inbox that a task hands out, oldest first, MOST of them or about LARGE bytes at most, which a call carries in its time. One that outlives a continuation is the first of its task, or waits for the next: what is before it may be
-- why the execution continues as new, and then it is carried over.
local MOST, LARGE = 1000, 1048576
local handed = 0 -- bytes of events and documents, by this script
local function upcoming(inbox)
  local events, bytes, from, page = {}, 0, '-', 4
  while #events < MOST do
    local some = call('XRANGE', inbox, from, '+', 'COUNT', page)
    for _, e in ipairs(some) do
      local size = #e[2][2]
      if #events == MOST or #events > 0 and (e[2][3] or bytes + size > LARGE) then return events end
      events[#events + 1], bytes, handed = e, bytes + size, handed + size
    end
    if #some < page then break end
    from, page = '(' .. some[#some][1], math.min(2 * page, 64)
  end
  return events
end

-- begin loads what a workflow task needs: document, cursor, events; nil = there is nothing to be done under this entry, or the instance is paused, and the entry is settled.
local function begin(queue, entry, id)
  local run, inbox = B .. 'run:' .. id, B .. 'in:' .. id
  local r = call('HMGET', run, 'x', 'e', 'p')
  if r[1] and r[2] == entry then
    local doc = call('GET', B .. 'doc:' .. id .. ':' .. r[1])
    local events = upcoming(inbox)
    if doc and #events > 0 and not r[3] then
      local task = {doc, events[#events][1]}
      handed = handed + #doc
      for _, e in ipairs(events) do task[#task + 1] = e[2][2] end
      return task
    end
    call('HSET', run, 'e', '')
  end
  pull('tasks', queue, entry)
end

-- fetch reads what is next for a worker that asks for it with something else. at is where the number of queues stands in ARGV, then
-- kind, queue, and how many entries at most. Each task is kind, queue, entry, its fields, and for a workflow what begin returns, or nothing if enough is handed out: it is begun by a call of its own then.
local function fetch(at, consumer)
  local out = {}
  for i = 0, tonumber(ARGV[at]) - 1 do
    local kind, queue = ARGV[at + 1 + 3 * i], ARGV[at + 2 + 3 * i]
    local got = redis.pcall('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', ARGV[at + 3 + 3 * i], 'STREAMS', B .. kind .. ':' .. queue, '>')
    if got and got[1] then -- else nothing is there, or no group
      for _, m in ipairs(got[1][2]) do
        if kind == 'activities' or handed >= LARGE then
          out[#out + 1] = {kind, queue, m[1], m[2]}
        else
          local task = begin(queue, m[1], m[2][2])
          if task then out[#out + 1] = {kind, queue, m[1], m[2], task} end
        end
      end
    end
  end
  return out
end
