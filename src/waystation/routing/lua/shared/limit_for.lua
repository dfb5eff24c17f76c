--- The limit that binds jobs of a signature: that of their type, or else the one they bring along.
--- uses  limit_of
local function limit_for(room, signature)
  if room.limit or string.sub(signature, -2) ~= '}]' then return room.limit end
  return limit_of(cjson.decode(signature)[8])
end
