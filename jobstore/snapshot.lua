-- snapshot.lua: note what the broker acknowledged in one scope, then take number and content of its next state index.
-- KEYS[1]  lease of the publisher   KEYS[2]  pubidx:{scope}   KEYS[3]  pubdone:{scope}   KEYS[4]  pubseq:{scope}
-- KEYS[5]  publisher:dirty          KEYS[6]  publisher:epoch
-- ARGV[1]  token of the lease       ARGV[2]  scope
-- ARGV[3]  seq is to be this at least, and above it if it was below   ARGV[4]  "1" = take a new seq, come what may
-- ARGV[5]  "1" = take the index, "0" = only note   ARGV[6]  another epoch
-- ARGV[7]  "1" = the whole index, "0" = of the job orders named last   ARGV[8]  number of job orders to be noted
-- then per job order to be noted: id, its field of pubdone ("" = remove), "1" if the index shows the difference,
--          its field of pubidx if that is to be removed unless it has changed ("" = stays)
-- then ids of job orders, at most 1000
-- Reply    {"ok", seq, epoch, "1", pubidx as a list, pubdone as a list}: the whole index
--          | {"ok", seq, epoch, "0", values of pubidx, values of pubdone}: of the ids, in their order | {"ok"} when only noted
--          | {"lost"} the lease is somebody else's | {"type", key} holds something else; in both cases nothing was written
-- The number is taken before the content, in one step, so that a higher number always has the later content. It
-- moves only if something changed since it was taken last. A seq below ARGV[3] says that the store lost something: the epoch
-- becomes that of ARGV[6], as it does if there is none, and the whole index is taken. A foreign key at KEYS[6] stays: then the epoch is "".
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
local want = {[2] = 'hash', [3] = 'hash', [4] = 'string', [5] = 'set'}
for i = 2, 5 do
  local t = redis.call('TYPE', KEYS[i]).ok
  if t ~= 'none' and t ~= want[i] then return {'type', KEYS[i]} end
end
local seq = redis.call('GET', KEYS[4]) or '0'
if #seq > 15 or not string.match(seq, '^%d+$') then return {'type', KEYS[4]} end
seq = tonumber(seq)

-- Nothing above this line writes.
local new = ARGV[4] == '1' or seq < 1
local ids = 9 + 4 * tonumber(ARGV[8])
for i = 9, ids - 1, 4 do
  local id, done, shown, gone = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if (redis.call('HGET', KEYS[3], id) or '') ~= done then
    new = new or shown == '1'
    if done == '' then
      redis.call('HDEL', KEYS[3], id)
    else
      redis.call('HSET', KEYS[3], id, done)
    end
  end
  if gone ~= '' and redis.call('HGET', KEYS[2], id) == gone then redis.call('HDEL', KEYS[2], id) end
end
if ARGV[5] == '0' then
  if new then redis.call('SADD', KEYS[5], ARGV[2]) end
  return {'ok'}
end
if redis.call('SREM', KEYS[5], ARGV[2]) == 1 and ARGV[7] == '1' then new = true end -- else the caller knows what it takes: ARGV[4]
local floor, epoch = tonumber(ARGV[3]), ''
local t = redis.call('TYPE', KEYS[6]).ok
if t == 'none' or t == 'string' then
  epoch = redis.call('GET', KEYS[6]) or ''
  if epoch ~= ARGV[6] and (epoch == '' or seq < floor) then
    epoch = ARGV[6]
    redis.call('SET', KEYS[6], epoch)
  end
end
local whole = ARGV[7]
if seq < floor then
  seq = floor
  new = true
  whole = '1'
end
if new then
  seq = seq + 1
  redis.call('SET', KEYS[4], string.format('%.0f', seq))
end
local read = {'ok', string.format('%.0f', seq), epoch, whole, {}, {}}
for i = 2, 3 do
  if whole == '1' then
    read[i + 3] = redis.call('HGETALL', KEYS[i])
  elseif ids <= #ARGV then
    read[i + 3] = redis.call('HMGET', KEYS[i], unpack(ARGV, ids))
  end
end
return read
