-- unbury.lua: delete dead letters.
-- KEYS[1] dead letters   KEYS[2] index of the dead letters
-- ARGV    in pairs: task id, SHA-1 (hex) of the letter that may be deleted, "" = any, "-" = none: only its place in the index, if there is no letter
-- Reply: how many were deleted
for i, want in ipairs({'hash', 'zset'}) do
  local have = redis.call('TYPE', KEYS[i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. have) end
end
local n = 0
for i = 1, #ARGV, 2 do
  local letter = redis.call('HGET', KEYS[1], ARGV[i])
  if ARGV[i + 1] == '' or letter and redis.sha1hex(letter) == ARGV[i + 1] then
    n = n + redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
  elseif not letter and ARGV[i + 1] == '-' then
    redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
return n
