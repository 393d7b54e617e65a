import { Argument, Command } from "commander";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

type Word = { word: string; description: string };
/** The subcommands and flags that may follow the words of `path`. */
type Level = { path: string; words: readonly Word[] };

/** Derived from the commands themselves, so that a new command or variable completes without further work. */
export function completionCommand(program: Command): Command {
  const scripts: Record<string, (levels: readonly Level[]) => string> = { bash, zsh, fish };
  return new Command("completion")
    .description("print a completion script for your shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(scripts)))
    .addHelpText("after", "\nbash: source <(stoa completion bash)\nfish: stoa completion fish | source")
    .action((shell: string) => {
      const script = scripts[shell];
      if (script === undefined) throw new CommandFailure(`no completion for ${shell}`, true);
      print(script(levelsOf(program)));
    });
}

function levelsOf(command: Command, path: readonly string[] = []): Level[] {
  const help = command.createHelp();
  const flags = command.options.flatMap(({ long, description }) => (long ? [{ word: long, description }] : []));
  const children = help.visibleCommands(command).filter((child) => child.name() !== "help");
  const subcommands = children.map((child) => ({ word: child.name(), description: child.description() }));
  const choices = command.registeredArguments.flatMap(({ argChoices, description }) =>
    (argChoices ?? []).map((word) => ({ word, description })),
  );
  const level = {
    path: path.join(" "),
    words: [...subcommands, ...choices, ...flags, { word: "--help", description: "" }],
  };
  return [level, ...children.flatMap((child) => levelsOf(child, [...path, child.name()]))];
}

const wordsOf = (level: Level) => level.words.map(({ word }) => word).join(" ");

/** Words that are not flags make the path; the longest known path decides the candidates. */
function chooseCandidates(levels: readonly Level[], words: string): string {
  const paths = levels.filter(({ path }) => path !== "").map(({ path }) => `" ${path}"`);
  const cases = levels.map((level) => `    "${level.path && ` ${level.path}`}") candidates="${wordsOf(level)}" ;;`);
  // A variable "path" would be the search path in zsh.
  return `  local level="" candidates="" word
  for word in ${words}; do
    case "$word" in -*) continue ;; esac
    case "$level $word" in
      ${paths.join(" | ")}) level="$level $word" ;;
    esac
  done
  case "$level" in
${cases.join("\n")}
  esac`;
}

function bash(levels: readonly Level[]): string {
  return `_stoa() {
${chooseCandidates(levels, `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`)}
  COMPREPLY=($(compgen -W "$candidates" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stoa stoa`;
}

function zsh(levels: readonly Level[]): string {
  return `#compdef stoa
_stoa() {
${chooseCandidates(levels, `"\${(@)words[2,CURRENT-1]}"`)}
  compadd -- \${=candidates} || _files
}
compdef _stoa stoa`;
}

function fish(levels: readonly Level[]): string {
  return levels
    .flatMap(({ path, words }) => {
      const parts = path === "" ? [] : path.split(" ");
      const condition =
        parts.map((part) => `__fish_seen_subcommand_from ${part}`).join("; and ") || "__fish_use_subcommand";
      return words.map(({ word, description }) => {
        const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${word}`;
        return `complete -c stoa -n '${condition}' ${what} -d '${description.replaceAll("'", "\\'")}'`;
      });
    })
    .join("\n");
}
