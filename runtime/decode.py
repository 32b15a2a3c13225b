"""Carrying a plan out: one prompt with `Decoder`, many with `decode_prompts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from planner.documents.document import PlannerError
from planner.plans.plan import BatchSetting, Plan
from planner.plans.report import Report
from planner.plans.settings import PlanSetting
from planner.policies import TreeDrafting
from planner.verifiers import VERIFIERS

from .closed_loop import ClosedLoop, ClosedLoops
from .ending import Ending
from .in_turns import by_batches, one_by_one
from .inputs import (
    check_length,
    check_models,
    checked_count,
    checked_ending,
    checked_limits,
    checked_prompt,
    named,
)
from .language_model import LanguageModel
from .loading import as_language_model
from .randomness import checked_seed, seeded_source
from .reports import Run, report_of
from .scheduler import Scheduler
from .session import Score, Session
from .step_trees import StepTrees
from .writer import Wanted, Writer

NO_DRAFT = TreeDrafting(parents=[-1])


@dataclass(frozen=True)
class Generation:
    """One prompt's continuation."""

    tokens: list[int]  # new ones only, what ended the text included
    report: Report
    logprobs: list[float] = field(default_factory=list)  # of the tokens, if they were asked for


@dataclass(frozen=True)
class Decoder:
    """A plan with the models that carry it out; made by `from_plan`.

    score  the trained head that the plan stops by, if it does
    timed  wait for a GPU at the end of each phase, so that a report's phases are right
    loops  choose every step's setting from the plan's tables; None: the plan to the letter
    to_text   the tokenizer's decoding, which finds strings that end a text
    logprobs  note the logarithm of every token's probability, in the target's distribution as it is
              sampled from

        decoder = replace(Decoder.from_plan(plan, target, draft), logprobs=True)
    """

    plan: Plan
    target: LanguageModel
    draft: LanguageModel | None
    score: Score | None = field(default=None, kw_only=True)
    timed: bool = field(default=True, kw_only=True)
    loops: ClosedLoops | None = field(default=None, kw_only=True)
    to_text: Callable[[list[int]], str] | None = field(default=None, kw_only=True)
    logprobs: bool = field(default=False, kw_only=True)

    @classmethod
    def from_plan(
        cls,
        plan: Plan | str | Path,
        target: LanguageModel | nn.Module,
        draft: LanguageModel | nn.Module | None = None,
        *,
        timed: bool = True,
        follow: bool = False,
        temperature: float | None = None,
    ) -> Decoder:
        """The decoder for `plan`, a Plan or the path of one.

        draft        may be None for a plan that does not speculate
        temperature  None: the plan's; at another one nothing of the plan's promise is left
        follow       change between the plan's settings, to whichever is the fastest as the machine
                     and the text are now, none included (`ClosedLoop`).  What is learned is kept
                     from text to text.  Texts then follow the target's distribution as ever, but
                     depend on how long steps take: the same seed need not give the same text,
                     unless it is greedy

        The file of a plan's head is looked for beside the plan, or in the working folder for a
        Plan that was not read from a file.  Raises PlannerError if the plan cannot be read or was
        made for an engine or for other models, if the draft model is missing or has another
        vocabulary, and if the head cannot be read or was trained for another draft or other
        sampling settings.
        """
        if not isinstance(plan, (Plan, str, Path)):
            raise PlannerError(
                f"plan: got a {type(plan).__name__}, expected a Plan or the path of one"
            )
        folder = Path() if isinstance(plan, Plan) else Path(plan).parent
        plan = plan if isinstance(plan, Plan) else Plan.load(plan)
        plan = plan if temperature is None else plan.at(temperature)
        if plan.made_from is not None and plan.made_from.engine is not None:
            engine = plan.made_from.engine.name
            raise PlannerError(
                f"plan: got one made for {engine}, expected one made from a profile of this "
                f"runtime; planner export --to {engine} tells {engine}, planner check asks it"
            )
        served = as_language_model(target)
        proposing = None if draft is None else as_language_model(draft)
        if follow and not plan.settings:
            raise PlannerError(
                "plan: settings: got none to change to, expected a table of them; solve the "
                "profile again, or decode without follow"
            )
        check_models(plan, served, proposing, follow=follow)
        loops = ClosedLoops(plan) if follow else None
        ways = plan.carried_out(follow=follow)
        if proposing is None or not any(way.speculates for way in ways):
            return cls(plan, served, None, timed=timed, loops=loops)
        score, heads = None, (way.drafting.trained_head for way in ways)
        file = next((head for head in heads if head is not None), None)
        if file is not None:
            from .heads import load_head

            head = load_head(folder / file.file, proposing.info, plan.sampling, sha256=file.sha256)
            score = head.to(proposing.device).scores
        return cls(plan, served, proposing, score=score, timed=timed, loops=loops)

    def generate(
        self,
        input_ids: Sequence[int] | Tensor,
        *,
        max_new_tokens: int = 128,
        seed: int = 0,
        stop_tokens: Sequence[int] | None = None,
        stop_strings: Sequence[str] = (),
        on_tokens: Callable[[list[int]], None] | None = None,
    ) -> Generation:
        """Continue one prompt.

        input_ids    the prompt: a list, or an int tensor [P] or [1, P]
        seed         the same seed gives the same tokens
        stop_tokens  any of these ends the text; default the target's own end-of-text tokens
        stop_strings  likewise; the token that completes one is the text's last
        on_tokens    called with the new tokens of every step: a streamer's `put`, if they are made
                     a tensor

        Raises PlannerError for an empty or batched prompt, tokens outside the vocabulary, stop
        tokens and strings that are none, a text longer than the models' positions,
        max_new_tokens < 1.
        """
        wanted = self.wanted(
            input_ids, max_new_tokens=max_new_tokens, seed=seed, stop_tokens=stop_tokens,
            stop_strings=stop_strings,
        )  # fmt: skip
        writer = self.writer(wanted)
        for tokens in writer.steps():
            if on_tokens is not None:
                on_tokens(tokens)
        return self.generation(writer.run, seed)

    def stream(
        self,
        input_ids: Sequence[int] | Tensor,
        *,
        max_new_tokens: int = 128,
        seed: int = 0,
        stop_tokens: Sequence[int] | None = None,
        stop_strings: Sequence[str] = (),
    ) -> Iterator[list[int]]:
        """The same continuation as `generate`'s, step by step; whoever takes no further step has
        cancelled it.  Checks its arguments at once."""
        wanted = self.wanted(
            input_ids, max_new_tokens=max_new_tokens, seed=seed, stop_tokens=stop_tokens,
            stop_strings=stop_strings,
        )  # fmt: skip
        return self.writer(wanted).steps()

    def generate_batch(
        self,
        prompts: Sequence[Sequence[int] | Tensor],
        *,
        max_new_tokens: int | Sequence[int] = 128,
        seed: int = 0,
        stop_tokens: Sequence[int] | None = None,
        stop_strings: Sequence[str] = (),
        max_rows: int | None = None,
    ) -> list[Generation]:
        """Continue many prompts together; see `Scheduler`.

        prompts         of any lengths, each as `generate` takes it
        max_new_tokens  of all of them, or of each
        seed            prompt i is continued with `prompt_seed(seed, i)`, and, if the plan has one
                        setting, so as `generate` continues it with that
        max_rows        most that are decoded at a time; None: all

        Times in the reports are those of steps that texts share.  Raises PlannerError as
        `generate` does, every prompt being checked before any is decoded.
        """
        limits = checked_limits(prompts, max_new_tokens)
        checked_seed(seed)
        scheduler = Scheduler(self, max_rows=len(prompts) if max_rows is None else max_rows)
        requests = []
        for index, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
            with named(f"prompts[{index}]"):
                request = scheduler.submit(
                    prompt, max_new_tokens=limit, seed=prompt_seed(seed, index),
                    stop_tokens=stop_tokens, stop_strings=stop_strings,
                )  # fmt: skip
            requests.append(request)
        generations = []
        for index, request in enumerate(requests):
            with named(f"prompts[{index}]"):
                generations.append(request.generation())
        return generations

    def wanted(
        self,
        input_ids: Sequence[int] | Tensor,
        *,
        max_new_tokens: int,
        seed: int,
        stop_tokens: Sequence[int] | None,
        stop_strings: Sequence[str],
    ) -> Wanted:
        """The arguments of `generate`, checked.  Raises PlannerError as that does."""
        ending = self._ending(stop_tokens, stop_strings)
        prompt = self._checked(input_ids, max_new_tokens)
        return Wanted(prompt, int(max_new_tokens), ending, checked_seed(seed))

    @property
    def loop(self) -> ClosedLoop | None:
        """The loop of texts that decode alone."""
        return None if self.loops is None else self.loops.at(1)

    def writer(
        self,
        wanted: Wanted,
        session: Session | None = None,
        ways: Sequence[Plan | BatchSetting | PlanSetting] | None = None,
    ) -> Writer:
        """The writer of that text.

        session  of a text that is over, to be used again; None: a new one
        ways     of its steps, among which whoever takes them chooses; None: the plan's or, of a
                 decoder that follows, those of its table, among which the loop does
        """
        loop = self.loop if ways is None else None
        if ways is None:
            ways = self.plan.ways if loop is None else self.plan.settings
        settings = [(VERIFIERS[way.verifier], self.plan.policy(way)) for way in ways]
        rng = seeded_source(wanted.seed, self.target.device)
        if session is not None:
            session.rng = rng
            return Writer(session, wanted, settings, loop)
        most_nodes = max(policy.num_nodes for _, policy in settings)
        session = Session(
            self.target,
            self.draft,
            verifier=VERIFIERS[self.plan.verifier],
            sampling=self.plan.sampling,
            rng=rng,
            capacity=len(wanted.prompt) + wanted.max_new_tokens + most_nodes,
            score=self.score,
            timed=self.timed,
            logprobs=self.logprobs,
        )
        return Writer(session, wanted, settings, loop)

    def generation(self, run: Run, seed: int) -> Generation:
        """The text that a run wrote, with a report of it."""
        report = report_of(self.plan, (self.target, self.draft), [run], seed=seed)
        return Generation(list(run.tokens), self._with_changes(report), run.logprobs)

    def _ending(self, stop_tokens: Sequence[int] | None, stop_strings: Sequence[str]) -> Ending:
        own = self.target.stop_tokens if stop_tokens is None else stop_tokens
        return checked_ending(own, stop_strings, self.to_text)

    def _with_changes(self, report: Report) -> Report:
        """The report with what the closed loop did, if it chose these steps."""
        if self.loop is None or report.continuations[0].followed is None:
            return report
        return report.model_copy(update={"followed": self.loop.followed})

    def _checked(self, input_ids: Sequence[int] | Tensor, max_new_tokens: int) -> list[int]:
        prompt = checked_prompt(input_ids, self.target.vocab_size)
        models = [model for model in (self.target, self.draft) if model is not None]
        check_length(len(prompt), max_new_tokens, models)
        return prompt


def decode_prompts(
    plan: Plan | str | Path,
    target: LanguageModel | nn.Module,
    draft: LanguageModel | nn.Module | None,
    prompts: Sequence[Sequence[int] | Tensor],
    *,
    max_new_tokens: int | Sequence[int] = 128,
    seed: int = 0,
    stop_tokens: Sequence[int] | None = None,
    stop_strings: Sequence[str] = (),
    baseline: bool = False,
    follow: bool = False,
    temperature: float | None = None,
    batch_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    to_text: Callable[[list[int]], str] | None = None,
) -> Report:
    """Continue every prompt under `plan` and report what was measured.

    max_new_tokens  of all of them, or of each
    baseline  also decode every prompt autoregressively, by the same code with a lone root, right
              before or right after (in turns), so that what disturbs the machine disturbs both
    batch_size  prompts that decode together, the next one as soon as one is over; None: one after
              the other.  Plan and baseline then take turns by the step
    follow, temperature  see `Decoder.from_plan`
    progress  called with (prompts done, prompts in all)
    to_text   the tokenizer's decoding, to put readable text and a few steps' trees into the report,
              and find stop strings

    Prompt i is decoded with `prompt_seed(seed, i)`.  A few tokens are decoded first and forgotten.
    Raises PlannerError as `Decoder` does; every prompt is checked before any is decoded.
    """
    checked_seed(seed)
    batch_size = None if batch_size is None else checked_count(batch_size, "batch_size")
    decoder = Decoder.from_plan(plan, target, draft, follow=follow, temperature=temperature)
    decoders = [decoder]
    if baseline:
        alone = decoder.plan.model_copy(update={"drafting": NO_DRAFT, "by_batch": []})
        decoders.append(Decoder(alone, decoder.target, None, timed=decoder.timed))
    readable, wanted = replace(decoder, to_text=to_text), []
    for index, limit in enumerate(checked_limits(prompts, max_new_tokens)):
        with named(f"prompts[{index}]"):
            wanted.append(
                readable.wanted(
                    prompts[index], max_new_tokens=limit, seed=prompt_seed(seed, index),
                    stop_tokens=stop_tokens, stop_strings=stop_strings,
                )
            )  # fmt: skip
    trees = StepTrees(to_text) if to_text is not None and batch_size is None else None
    if batch_size is None:
        see = None if trees is None else trees.see
        runs, together = one_by_one(decoders, wanted, progress, see), None
    else:
        runs, together = by_batches(decoders, wanted, batch_size, progress)
    report = report_of(
        decoder.plan,
        (decoder.target, decoder.draft),
        runs[0],
        seed=seed,
        baseline=runs[1] if baseline else None,
        to_text=to_text,
    )
    kept = [] if trees is None else trees.kept
    more = {"together": together, "trees": kept or None}
    return decoder._with_changes(report.model_copy(update=more))


def prompt_seed(seed: int, index: int) -> int:
    """The seed of the prompt at `index` of a run: `seed` itself for the first, then independent."""
    if index == 0:
        return seed
    state = np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)
    return int(state[0]) >> 1
