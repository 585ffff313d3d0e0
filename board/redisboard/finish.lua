-- finish.lua: consume, abandon or trash postings, each if it is the owner's.
-- KEYS[1] listings (hash)   KEYS[2] trash (hash)   KEYS[3] attempts (hash)   KEYS[4...] per posting: owner, last_modified
-- ARGV[1] consume, abandon or trash   ARGV[2] record for last_modified   ARGV[3] channel of events   ARGV[4...] per posting: field, owner
-- Reply: per posting: 'ok', '' | 'not_found', '' | 'unowned', '' | 'not_owner', who is
local owned, reply = {}, {}
for i = 4, #ARGV, 2 do owned[#owned + 1] = KEYS[i] end
owned = redis.call('MGET', unpack(owned)) -- what is no text is missing
local fields, keys = {}, {} -- of those that are finished
for i = 4, #ARGV, 2 do
  local field, owner = ARGV[i], owned[i / 2 - 1]
  local word, other = 'ok', ''
  if redis.call('HEXISTS', KEYS[1], field) == 0 then
    word = 'not_found'
  elseif not owner then
    word = 'unowned'
  elseif owner ~= ARGV[i + 1] then
    word, other = 'not_owner', owner
  else
    fields[#fields + 1] = field
    keys[#keys + 1] = KEYS[i]
    keys[#keys + 1] = KEYS[i + 1]
  end
  reply[#reply + 1] = word
  reply[#reply + 1] = other
end
if #fields == 0 then return reply end
-- What fails on keys of another type comes first, for what was written before would stay.
local stays = ARGV[1] == 'abandon'
if not stays then redis.call('HDEL', KEYS[3], unpack(fields)) end
if ARGV[1] == 'consume' then
  redis.call('DEL', unpack(keys))
else
  for i, field in ipairs(fields) do
    if ARGV[1] == 'trash' then redis.call('HSET', KEYS[2], field, redis.call('HGET', KEYS[1], field)) end
    redis.call('SET', keys[2 * i], ARGV[2])
    redis.call('DEL', keys[2 * i - 1])
  end
end
if not stays then redis.call('HDEL', KEYS[1], unpack(fields)) end
redis.call('PUBLISH', ARGV[3], ARGV[1])
return reply
