-- settle.lua: end one task that concerns others, if the worker that ran it is still itself: it has a unique or a start key, is in a group, or was cancelled.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream   KEYS[3] awaited hash   KEYS[4] counters   KEYS[5] dead letters   KEYS[6] index of the dead letters
-- KEYS[7] cancel marks   KEYS[8] result   KEYS[9] unique key   KEYS[10] start key; = KEYS[2] if there is none
-- of a task in a group, too: KEYS[11] state   KEYS[12] done   KEYS[13] remaining   KEYS[14] callback   KEYS[15] the child's result   KEYS[16...24] the streams of the built-in sizes
--   KEYS[25] stream of ARGV[18], if that is given
-- ARGV[1] token under which it was delivered   ARGV[2] group of consumers   ARGV[3] entry id   ARGV[4] task id
-- ARGV[5] name before a channel of those who await   ARGV[6] channel of the control   ARGV[7], ARGV[8] counters
-- ARGV[9] time to live of the result, ms   ARGV[10] result, "" = none   ARGV[11] dead letter, "" = none
-- ARGV[12] slot in the group   ARGV[13] "1" = done, "0" = not   ARGV[14] what it returned, or the result that says how it failed
-- ARGV[15] mark that cancels the children of the group   ARGV[16] callback of a group that Takt did not make, "" = none   ARGV[17] its queue
-- ARGV[18] queue of a pool in which something may be to follow the group; a queue is the index of its stream from KEYS[16] on, or, of a pool, its name
-- Reply: {"ok", 1, what became of the group} | {"ok", 0}: it had ended before | {"lost"} | {"queue", name}: ask again with its stream; all three: nothing done
--   of the group: "" (is in none) | "counted" | "last" | "again" (the slot had ended before) | "gone" (expired) | "broken" (keys that are none of a group)
--   | "uncounted": a task that failed, in a group that Takt did not make: as its makers do, the callback never comes
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
local stream = KEYS[2]
local function wrong(key, want)
  local t = redis.call('TYPE', key).ok
  return t ~= 'none' and t ~= want
end
local function refuse(key) return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. redis.call('TYPE', key).ok) end
if wrong(KEYS[4], 'hash') then return refuse(KEYS[4]) end
if ARGV[10] ~= '' and wrong(KEYS[3], 'hash') then return refuse(KEYS[3]) end
if ARGV[11] ~= '' then
  if wrong(KEYS[5], 'hash') then return refuse(KEYS[5]) end
  if wrong(KEYS[6], 'zset') then return refuse(KEYS[6]) end
end

-- What becomes of the group is decided before anything is written; fire is what to add where, as {index of the stream, message}.
local group, foreign, left, ttl, failed, policy, stop, last, word = '', false, 0, 0, 0, '', false, false, ''
local fire, elsewhere
local function follow(queue, message)
  local index = tonumber(queue) or queue == ARGV[18] and 10
  if index then fire = {index, message} else elsewhere = queue end
end
if #KEYS > 10 then
  left = redis.pcall('GET', KEYS[13]) -- pcall: keys of other types
  local had = redis.pcall('SISMEMBER', KEYS[12], ARGV[12])
  local state = redis.pcall('HMGET', KEYS[11], 'ttl', 'policy', 'failed', 'stopped', 'told')
  if type(had) == 'table' or state.err then
    group = 'broken'
  else
    foreign = not state[1]
    if not left then
      group = 'gone'
    elseif had == 1 then
      group = 'again'
    elseif foreign and ARGV[13] ~= '1' then
      group = 'uncounted'
    else
      group = 'counted'
      left = tonumber(left) -- nil of a key of another type, too
      ttl = foreign and redis.call('PTTL', KEYS[13]) or tonumber(state[1])
      if not left or not ttl then
        group = 'broken'
      else
        if ttl < 1 then ttl = 86400000 end
        left = left - 1
        last = left <= 0
        if not foreign then
          policy, failed = state[2], tonumber(state[3] or '0')
          if ARGV[13] ~= '1' then failed = failed + 1 end
          stop = policy == 'fast' and failed > 0 and not state[4]
          word = (failed == 0 or policy == 'done') and 'callback' or 'failure'
          if last or stop and word == 'failure' then
            local m = redis.call('HMGET', KEYS[11], word, word .. ' queue')
            if m[1] and m[2] and not (word == 'failure' and state[5]) then follow(m[2], m[1]) end
          end
        elseif last and ARGV[16] ~= '' then
          follow(ARGV[17], ARGV[16])
        end
      end
    end
  end
  if elsewhere then return {'queue', elsewhere} end
  if fire and wrong(KEYS[15 + fire[1]], 'stream') then return refuse(KEYS[15 + fire[1]]) end
end

redis.call('ZREM', KEYS[7], ARGV[4]) -- the first write: a key of another type refuses it, and nothing is done
if redis.call('XACK', stream, ARGV[2], ARGV[3]) == 0 and #redis.call('XRANGE', stream, ARGV[3], ARGV[3]) == 0 then return {'ok', 0} end
if ARGV[10] ~= '' then
  redis.call('SET', KEYS[8], ARGV[10], 'PX', ARGV[9])
  local who = redis.call('HGET', KEYS[3], ARGV[4])
  if who then
    redis.call('HDEL', KEYS[3], ARGV[4])
    for name in string.gmatch(who, '[^,]+') do redis.call('PUBLISH', ARGV[5] .. name, ARGV[4]) end
  end
end
local function now() -- in ms
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
if ARGV[11] ~= '' then
  redis.call('HSET', KEYS[5], ARGV[4], ARGV[11])
  redis.call('ZADD', KEYS[6], string.format('%.0f', now()), ARGV[4])
end
for i = 9, 10 do
  if KEYS[i] ~= stream and not wrong(KEYS[i], 'string') and redis.call('GET', KEYS[i]) == ARGV[4] then redis.call('DEL', KEYS[i]) end
end
redis.call('HINCRBY', KEYS[4], ARGV[7], 1)
redis.call('HINCRBY', KEYS[4], ARGV[8], 1)
if group == 'counted' then
  redis.call('SADD', KEYS[12], ARGV[12])
  redis.call('DECR', KEYS[13])
  if ARGV[13] == '1' then
    redis.call('SET', KEYS[15], ARGV[14], 'PX', ttl)
  end
  if not foreign then
    if ARGV[13] == '1' then
      redis.call('HINCRBY', KEYS[11], 'ok', 1)
    else
      redis.call('HSET', KEYS[11], 'failed', failed, 'error ' .. ARGV[12], ARGV[14])
    end
    if stop then
      redis.call('HSET', KEYS[11], 'stopped', 1)
      if not last then
        local t = now()
        redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', string.format('%.0f', t - 86400000))
        redis.call('ZADD', KEYS[7], string.format('%.0f', t), ARGV[15])
        redis.call('PUBLISH', ARGV[6], ARGV[15])
      end
      if fire then redis.call('HSET', KEYS[11], 'told', 1) end
    end
    if last then
      redis.call('HSET', KEYS[11], 'fired', (word == 'callback' or redis.call('HEXISTS', KEYS[11], word) == 1) and word or 'none')
      redis.call('ZREM', KEYS[7], ARGV[15])
    end
  end
  -- To within a 64th of it, the group lives for its time from here on.
  if last or redis.call('PTTL', KEYS[12]) < ttl - ttl / 64 then
    redis.call('PEXPIRE', KEYS[12], ttl)
    if not foreign then
      for _, i in ipairs({11, 13, 14}) do redis.call('PEXPIRE', KEYS[i], ttl) end
    end
  end
  if last then group = 'last' end
  if fire then redis.call('XADD', KEYS[15 + fire[1]], '*', 'data', fire[2]) end
end
redis.call('XDEL', stream, ARGV[3])
return {'ok', 1, group}
