--- The number that a text says, when it is one that counts something; else the other one.
local function number_or(other, text)
  local number = text and tonumber(text)
  return number and number >= 0 and number < 9007199254740992 and number or other
end
