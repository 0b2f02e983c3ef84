// Links that point to a call: `#call=NAME&unit=LABEL`.

// What no address can hold.
const HALVES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export interface Place {
  call: string;
  unit: string;
}

export function placeOf(hash: string): Place {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  return { call: parts.get("call") ?? "", unit: parts.get("unit") ?? "" };
}

export function hashOf(place: Place): string {
  const part = (key: keyof Place) =>
    place[key] ? `${key}=${encodeURIComponent(place[key].replace(HALVES, "\ufffd"))}` : "";
  const parts = [part("call"), part("unit")].filter(Boolean);
  return parts.length ? `#${parts.join("&")}` : "";
}
