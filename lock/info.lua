-- info.lua: what can be told about one lock; stands between line.lua and list.lua or break.lua. It writes nothing.
-- {"1" if it is held, has used quota, is waited for, or is no lock at all, else "0", ms until the last lease ends, or the key expires
--  (-1 never), fence or "0", waiters, used (holders, or items of the window), limit and window in µs (of the last grant of a rate, else as
--  in ARGV), readers without lease, number of owners, per owner: name, ms until its lease ends (-1 unknown), "w" if it writes (else "")}
local function info(s)
  look(s)
  if s.kind == 'rate' and s.there then
    local v = redis.call('HMGET', s.lock, 'limit', 'window')
    s.limit, s.window = tonumber(v[1]) or 0, tonumber(v[2]) or 0
  end
  local st, owners, foreign, used, left = state[s.kind](s), {}, 0, 0, redis.call('PTTL', s.lock)
  local function add(name, left, mode)
    for _, v in ipairs({name, text(left), mode or ''}) do owners[#owners + 1] = v end
    used = used + 1
  end
  if s.kind == 'mutex' and st.holder then
    add(st.holder, st.left)
  elseif s.kind == 'read' then
    if st.writer then add(st.writer, st.left, 'w') end
    for name, till in pairs(st.leases) do add(name, till - ms) end
    foreign = st.foreign
  elseif s.kind == 'conc' and s.there then
    local all = redis.call('ZRANGEBYSCORE', s.lock, '(' .. text(ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    for i = 1, #all, 2 do add(all[i], math.ceil(tonumber(all[i + 1])) - ms) end
    used = redis.call('ZCOUNT', s.lock, '(' .. text(ms), '+inf')
    local last = redis.call('ZRANGE', s.lock, -1, -1, 'WITHSCORES')
    left = math.ceil(tonumber(last[2])) - ms -- its key lives longer
  elseif s.kind == 'rate' and s.there then
    used = st.used
  end
  local waiters = s.queued and redis.call('ZCOUNT', s.places, '(' .. text(ms), '+inf') or 0
  local last = s.fence and redis.call('TYPE', s.fence).ok == 'string' and tonumber(redis.call('GET', s.fence)) or 0
  local reply = {(s.bad or used + foreign + waiters > 0) and '1' or '0', text(left), text(last), text(waiters), text(used),
    text(s.limit), text(s.window), text(foreign), text(#owners / 3)}
  for _, v in ipairs(owners) do reply[#reply + 1] = v end
  return reply
end
