#pragma once
/// \file
/// The settings of a run, which a checkpoint carries, as flags: what each is called and what is said of it. Its type
/// and range are TrainSettings' own. Only max_skipped_in_a_row has none.
/// defines: SettingFlag, setting_flags

#include <array>
#include <string_view>

namespace k3spec::examples {

/// A setting's flag.
struct SettingFlag {
  const char* key;         ///< as TrainSettings::visit names it
  const char* flag;        ///< on the command line
  std::string_view kinds;  ///< of drafts that have it, with " or " between; empty: all
  const char* help;
};

inline constexpr std::array setting_flags{
    SettingFlag{"total_steps", "--steps", "", "Steps to train, instead of --minutes"},
    SettingFlag{"lr", "--lr", "", "Highest learning rate"},
    SettingFlag{"warmup_steps", "--warmup", "", "Steps over which the learning rate rises"},
    SettingFlag{"min_lr_ratio", "--min-lr-ratio", "", "Last learning rate, as a part of the highest"},
    SettingFlag{"batch", "--batch", "", "Windows that go through the draft together"},
    SettingFlag{"accumulate", "--accumulate", "", "Batches a step, with the gradient of one large batch"},
    SettingFlag{"length", "--length", "", "Tokens a window"},
    SettingFlag{
        "packing", "--packing", "",
        "Windows are several documents that do not see each other, a text's are its lines; apart: nor in the target"},
    SettingFlag{"sampling", "--sampling", "",
                "Windows of a step: pieces at random places; all of the data's, each once an epoch; or, with --packing "
                "apart, whole documents packed into windows, each once an epoch"},
    SettingFlag{"seed", "--seed", "", "Of fresh parameters and the choice of windows"},
    SettingFlag{"ttt_steps", "--ttt-steps", "eagle3", "eagle3: drafted tokens that training unrolls"},
    SettingFlag{"lk", "--lk", "eagle3", "eagle3: loss of the acceptance rate, instead of cross-entropy"},
    SettingFlag{"lk_kl_scale", "--lk-kl-scale", "eagle3",
                "eagle3, --lk lambda: cross-entropy weighs s * exp(-d * rate)"},
    SettingFlag{"lk_kl_decay", "--lk-kl-decay", "eagle3", "eagle3, --lk lambda: d of that"},
    SettingFlag{"fc_init", "--fc-init", "eagle3",
                "eagle3: fresh fc; last_identity is [0 0 I], the last layer's state as it is"},
    SettingFlag{"anchors", "--anchors", "dflash or dspark", "dflash, dspark: blocks in a window"},
    SettingFlag{"gamma", "--gamma", "dflash or dspark", "dflash, dspark: slot k of a block weighs exp(-k / gamma)"},
    SettingFlag{"variable_prefix", "--variable-prefix", "dflash",
                "dflash: blocks begin with a random number of true tokens"},
    SettingFlag{"prefix_base", "--prefix-base", "dflash",
                "dflash, --variable-prefix: a prefix of l tokens has a chance as this to the power l"},
    SettingFlag{"ce_alpha", "--ce-alpha", "dspark", "dspark: weight of cross-entropy"},
    SettingFlag{"l1_alpha", "--l1-alpha", "dspark", "dspark: weight of |p - q|"},
    SettingFlag{"confidence_alpha", "--confidence-alpha", "dspark", "dspark: weight of the confidence head's loss"},
    SettingFlag{"markov_deviation", "--markov-deviation", "dspark",
                "dspark: deviation of the Markov head's fresh table of previous tokens"},
    SettingFlag{"max_grad_norm", "--clip", "", "Largest norm of the gradient"},
    SettingFlag{"weight_decay", "--weight-decay", "", "Decay of matrices"},
    SettingFlag{"optimizer", "--optimizer", "", "What moves matrices but embeddings, heads and Markov tables"},
    SettingFlag{"beta1", "--beta1", "", "AdamW's"},
    SettingFlag{"beta2", "--beta2", "", "AdamW's"},
    SettingFlag{"eps", "--eps", "", "AdamW's"},
    SettingFlag{"muon_momentum", "--muon-momentum", "", "--optimizer muon: its momentum"},
    SettingFlag{"muon_scale", "--muon-scale", "",
                "--optimizer muon: steps as long as AdamW's for the same --lr, or as Muon was published"},
    SettingFlag{
        "ema", "--ema", "",
        "Decay of an average of the parameters, e.g. 0.999, warmed up; held-out text is measured with the average, "
        "and it is what a checkpoint's draft is [none]"},
    SettingFlag{"freeze", "--freeze", "",
                "Tensors that stay as they are: a name as in the checkpoint, with * for any characters and ? for one; "
                "may be given several times"}};

}  // namespace k3spec::examples
