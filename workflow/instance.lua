-- instance.lua: what starts and ends executions, and crosses shards.

-- tell publishes what became of an execution to the watchers in this database. Without one it costs an MGET, which takes a key of another type for none.
local function tell(what, doc)
  local database = call('MGET', B .. 'watched')[1]
  if database then call('PUBLISH', B .. 'watch:' .. database, what .. '\n' .. doc) end
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
  call('HSET', run, 'x', x, 'q', queue, 'e', gate == '' and not paused and try('tasks', queue, 'i', id) or '')
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
