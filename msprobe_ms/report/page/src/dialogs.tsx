// Help, and what this report and page are made of.

import libraries from "licences";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Head } from "./document.ts";
import { count, shown } from "./format.ts";
import { t } from "./language.ts";
import { Mark, Part, verdictName } from "./marks.tsx";
import { LETTERS } from "./verdicts.ts";

function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={close}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" onClick={() => element.current?.close()}>
          {t("close")}
        </button>
      </header>
      {children}
    </dialog>
  );
}

export function Help({ close }: { close: () => void }) {
  const keys = [
    ["↑ ↓", t("key_move")],
    ["← → Enter", t("key_fold")],
    ["/", t("key_search")],
    ["n  p", t("key_next")],
    ["f", t("key_first")],
    ["?", t("key_help")],
    ["Esc", t("key_escape")],
  ];
  return (
    <Dialog title={t("help")} close={close}>
      <div class="help">
        <div>
          <h3>{t("keys")}</h3>
          <dl class="keys">
            {keys.map(([key, text]) => (
              <>
                <dt>
                  {key
                    .split(" ")
                    .filter(Boolean)
                    .map((one) => (
                      <kbd>{one}</kbd>
                    ))}
                </dt>
                <dd>{text}</dd>
              </>
            ))}
          </dl>
        </div>
        <div>
          <h3>{t("marks")}</h3>
          <ul class="marks">
            {LETTERS.map((letter) => (
              <li>
                <Mark letter={letter} /> {verdictName(letter)}
              </li>
            ))}
            {(["c", "h", "m"] as const).map((letter) => (
              <li>
                <span class={`overflow ${letter}`}>∞</span> {t(`overflow_${letter}`)}
              </li>
            ))}
          </ul>
        </div>
      </div>
      <p>{t("bar_help")}</p>
      <p>{t("number_help")}</p>
    </Dialog>
  );
}

export function About({ head, close }: { head: Head; close: () => void }) {
  return (
    <Dialog title={t("about")} close={close}>
      <p>{t("made_with", shown(head.tool), shown(head.time))}</p>
      {head.calls ? <p>{t("detailed", count(head.detailed ?? 0), count(head.calls))}</p> : null}
      <h3>{t("licences")}</h3>
      {libraries.map(({ name, version, licence, text }) => (
        <Part title={`${name} ${version} (${licence})`}>{() => <pre class="licence">{text}</pre>}</Part>
      ))}
    </Dialog>
  );
}
