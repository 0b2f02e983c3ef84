// The keys that work everywhere on the page.

import { useEffect, useRef } from "preact/hooks";

export interface Keys {
  step: (by: 1 | -1) => void;
  help: () => void;
  toFirst: () => void;
}

export function useKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const element = event.target as HTMLElement;
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && isTyping) {
        element.blur();
        document.getElementById("tree")?.focus();
      }
      if (isTyping || document.querySelector("dialog[open]")) return;
      const does: Record<string, () => void> = {
        "/": () =>
          (document.getElementById("search") ?? document.querySelector<HTMLElement>("input[type=search]"))?.focus(),
        n: () => now.current.step(1),
        p: () => now.current.step(-1),
        f: () => now.current.toFirst(),
        "?": () => now.current.help(),
      };
      if (!(event.key in does)) return;
      event.preventDefault();
      does[event.key]();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
