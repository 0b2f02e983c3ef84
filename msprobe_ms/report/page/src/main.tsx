// Begins here: the head is read and shown.

import { render } from "preact";
import { App } from "./app.tsx";
import { ofDocument } from "./chunks.ts";
import { type Head, type Messages, VERSION } from "./document.ts";
import { learn, say, speak, t } from "./language.ts";
import { Report } from "./report.ts";
import "./style.css";

async function begin(root: HTMLElement): Promise<void> {
  if (navigator.language.toLowerCase().startsWith("zh")) speak("zh");
  const chunks = ofDocument();
  try {
    const head = await chunks.get<Head>(0);
    if (head.version !== VERSION) throw new Error(t("other_version", VERSION, head.version));
    learn(await chunks.get<Messages>(head.messages));
    document.title = `${say(head.title)} · msprobe`;
    render(<App report={new Report(head, chunks)} />, root);
  } catch (failure) {
    const text = document.createElement("p");
    text.className = "failure";
    text.textContent = t("failed", failure instanceof Error ? failure.message : String(failure));
    root.replaceChildren(text);
  }
}

const root = document.getElementById("page");
if (root) void begin(root);
