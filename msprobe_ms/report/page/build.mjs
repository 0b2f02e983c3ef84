// Builds ../page.html, or with --tests the tests into .tests/. The same sources give the same bytes.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const MARK = "<!-- msprobe report data -->";
const SHIPPED = ["preact", "uplot"];

/** What the about box lists: the libraries that stand in the page, with their licences. */
const licences = {
  name: "licences",
  setup(builder) {
    builder.onResolve({ filter: /^licences$/ }, () => ({ path: "licences", namespace: "licences" }));
    builder.onLoad({ filter: /.*/, namespace: "licences" }, () => ({
      contents: JSON.stringify(
        SHIPPED.map((name) => {
          const folder = join(HERE, "node_modules", name);
          const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
          const text = readFileSync(join(folder, "LICENSE"), "utf8").replaceAll("\r\n", "\n");
          return { name, version, licence: license, text };
        }),
      ),
      loader: "json",
    }));
  },
};

const shared = {
  absWorkingDir: HERE,
  bundle: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [licences],
  charset: "utf8",
};

async function page() {
  const { outputFiles, errors } = await build({
    ...shared,
    entryPoints: ["src/main.tsx"],
    outdir: "out",
    write: false,
    minify: true,
    format: "iife",
    target: ["chrome100", "firefox113", "safari16.4"],
    legalComments: "none",
  });
  if (errors.length) throw new Error(String(errors));
  const textOf = (end) => outputFiles.find((file) => file.path.endsWith(end)).text.trim();
  const script = textOf(".js");
  const style = textOf(".css");
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error("a tag stands in the script or style");
  const hash = createHash("sha256").update(script).digest("base64");
  const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>msprobe</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="page"><noscript>This report is shown by its script; scripts are switched off here.</noscript></div>
${MARK}
<script>${script}</script>
</body>
</html>
`;
  if (html.split(MARK).length !== 2) throw new Error("the mark must stand once");
  writeFileSync(join(HERE, "..", "page.html"), html);
  console.log(`page.html: ${Buffer.byteLength(html)} bytes`);
}

async function tests() {
  const entryPoints = readdirSync(join(HERE, "test")).map((name) => join("test", name));
  await build({
    ...shared,
    entryPoints,
    outdir: ".tests",
    format: "esm",
    platform: "node",
    outExtension: { ".js": ".mjs" },
  });
}

await (process.argv.includes("--tests") ? tests() : page());
