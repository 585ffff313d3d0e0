-- shorten.lua: stands before each script that calls it.
-- shorten takes care of a lease or heartbeat that expires later than its time to live allows: the server's clock stepped back after it was renewed. A holder that
-- died meanwhile would keep it for as long as the step; it now ends after one time to live, and a holder that lives renews it before.
-- value is what the holder wrote: its time to live is behind the last " ttl=", in ms. Older builds did not write it; then it is ten times own, that of the caller.
-- It returns whether it was shortened. A key that never expires is left alone. It writes one command, PEXPIRE.
local function shorten(key, value, own)
  local ttl = tonumber(string.match(value, ' ttl=(%d+)$')) or 10 * tonumber(own)
  if redis.call('PTTL', key) <= ttl then return false end
  redis.call('PEXPIRE', key, string.format('%.0f', ttl))
  return true
end
