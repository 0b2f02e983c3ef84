// The line above everything: what this is, language, light or dark, help.

import { shown } from "./format.ts";
import { isKey, type Language, say, t } from "./language.ts";
import type { Report } from "./report.ts";

export interface Look {
  language: Language;
  theme: string;
}

export function kept(key: string, value?: string): string {
  try {
    if (value !== undefined) localStorage.setItem(`msprobe-${key}`, value);
    return localStorage.getItem(`msprobe-${key}`) ?? "";
  } catch {
    return value ?? ""; // A page from a file may keep nothing.
  }
}

/** What the reader chose before; otherwise what the browser says. */
export function preferred(): Look {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const chinese = navigator.language.toLowerCase().startsWith("zh");
  return {
    language: (kept("language") || (chinese ? "zh" : "en")) as Language,
    theme: kept("theme") || (dark ? "dark" : "light"),
  };
}

interface TopProps {
  report: Report;
  language: Language;
  theme: string;
  setLook: (look: Look) => void;
  open: (dialog: "help" | "about") => void;
}

export function Top({ report, language, theme, setLook, open }: TopProps) {
  const { head } = report;
  const kind = `kind_${head.kind}`;
  return (
    <header class="top">
      <button type="button" class="skip" onClick={() => document.getElementById("tree")?.focus()}>
        {t("skip")}
      </button>
      <span class="brand">msprobe</span>
      <span class="title" title={say(head.title)}>
        {say(head.title)}
      </span>
      <span class="quiet kind">{isKey(kind) ? t(kind) : shown(head.kind)}</span>
      <span class="space" />
      <button
        type="button"
        onClick={() => setLook({ language: language === "zh" ? "en" : "zh", theme })}
        lang={language === "zh" ? "en" : "zh"}
      >
        {t("language")}
      </button>
      <button
        type="button"
        aria-label={t("theme")}
        title={t("theme")}
        aria-pressed={theme === "dark"}
        onClick={() => setLook({ language, theme: theme === "dark" ? "light" : "dark" })}
      >
        {theme === "dark" ? "☀" : "☾"}
      </button>
      <button type="button" aria-label={t("help")} title={t("help")} onClick={() => open("help")}>
        ?
      </button>
      <button type="button" onClick={() => open("about")} aria-label={t("about")} title={t("about")}>
        i
      </button>
    </header>
  );
}
