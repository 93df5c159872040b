// Builds the page of `tamis serve`: `node build.mjs [FOLDER]`. The result is in the repository, so
// that users need no Node; tests/server/test_bundle.py compares it with the sources.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "../src/tamis/server/pages/workbench");

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.js" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  outdir: folder,
});

// Every package in the bundle is named with its licence.
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = input.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
const notices = [...packages].sort().map((name) => {
  const root = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  let text = "";
  for (const file of ["LICENSE", "LICENSE.md", "license", "LICENSE.txt"]) {
    try {
      text = readFileSync(join(root, file), "utf8").trim();
      break;
    } catch {}
  }
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(join(folder, "notices.txt"), notices.join(`\n${"-".repeat(72)}\n\n`));
